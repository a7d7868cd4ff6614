"""Readers and files."""

import os
from typing import Optional, Sequence

import tandem
from tandem.reader import DataLoader, Reader

__all__ = ["DataLoader", "PyReader", "load_params", "load_persistables", "save_params",
           "save_persistables"]

_FILE = "params.safetensors"


def PyReader(feed_list: Sequence[tandem.Variable], capacity: int = 8,
             use_double_buffer: bool = True, iterable: bool = True,
             return_list: bool = False) -> Reader:
    """A reader of data variables."""
    return DataLoader.from_generator(feed_list, capacity, use_double_buffer, iterable, return_list)


def save_persistables(executor: tandem.Executor, dirname: str,
                      main_program: Optional[tandem.Program] = None,
                      filename: Optional[str] = None) -> None:
    """Writes the parameters to a safetensors file in `dirname`."""
    os.makedirs(dirname, exist_ok=True)
    scope = tandem.global_scope(executor.place)
    tandem.save_params(os.path.join(dirname, filename or _FILE), main_program, scope)


def load_persistables(executor: tandem.Executor, dirname: str,
                      main_program: Optional[tandem.Program] = None,
                      filename: Optional[str] = None) -> None:
    """Reads what save_persistables wrote."""
    del main_program
    tandem.load_params(os.path.join(dirname, filename or _FILE), tandem.global_scope(executor.place))


save_params = save_persistables
load_params = load_persistables
