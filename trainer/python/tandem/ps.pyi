"""The types of `tandem.ps`."""

import os
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy.typing

from .ps_follower import Change as Change, Follower as Follower, VariableChange as VariableChange
from .ps_follower import VariableFollower as VariableFollower, follow as follow
from .ps_reader import Dense as Dense, Reader as Reader, Rows as Rows

__all__ = [
    "Block",
    "Change",
    "Client",
    "Dense",
    "Follower",
    "PserverError",
    "Reader",
    "Rows",
    "ServerStatus",
    "Slice",
    "State",
    "Table",
    "VariableChange",
    "VariableFollower",
    "follow",
    "partition",
    "row_buckets",
]

Array = numpy.typing.NDArray[Any]
Attr = Union[bool, int, float, str]
Tls = Union[None, str, os.PathLike[str], Tuple[str, str, str]]
Gradients = Union[Tuple[Array, Array], Tuple[Array, Array, Array]]  # of rows

class State(NamedTuple):
    initialised: bool
    restored: bool
    version: int

class ServerStatus(NamedTuple):
    address: str
    configured: bool
    initialised: bool
    version: int
    checkpoint_version: int
    elements: int
    rows: int
    extended: int

class Slice(NamedTuple):
    variable: str
    offset: int
    numel: int
    server: int

Block = Slice

class Table(NamedTuple):
    height: int
    dim: int
    init: str = "constant"
    a: float = 0.0
    b: float = 0.0
    seed: int = 0
    rules: str = ""

class PserverError(Exception):
    code: str
    server: str
    method: str
    message: str
    def __init__(self, code: str, server: str, method: str, message: str) -> None: ...
    def at_step(self, step: int) -> PserverError: ...

class Client:
    job: str
    trainer: int
    trainers: int
    incarnation: int
    def __init__(
        self,
        servers: Sequence[str],
        job: str = "job",
        trainer: int = 0,
        trainers: int = 1,
        incarnation: Optional[int] = None,
        secret: str = "",
        tls: Tls = None,
        start_timeout: float = 60.0,
        step_timeout: float = 60.0,
        retries: int = 3,
        insecure_allow_network: bool = False,
    ) -> None: ...
    def __enter__(self) -> Client: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None: ...
    def configure(
        self,
        variables: Mapping[str, Sequence[int]],
        optimizer: str = "sgd",
        attrs: Optional[Mapping[str, Attr]] = None,
        mode: str = "sync",
        tables: Optional[Mapping[str, Table]] = None,
        slice_var_up: bool = True,
        min_block_size: int = 8192,
        dispatcher: str = "round_robin",
    ) -> State: ...
    def init_or_fetch(self, params: Mapping[str, Array], version: int = 0) -> int: ...
    def push(
        self,
        step: int,
        learning_rate: float,
        gradients: Mapping[str, Array],
        rows: Optional[Mapping[str, Gradients]] = None,
        event_time: Optional[float] = None,
    ) -> int: ...
    def pull(
        self, params: Mapping[str, Array], min_version: int = 0, exactly: bool = False
    ) -> int: ...
    def push_pull(
        self,
        step: int,
        learning_rate: float,
        gradients: Mapping[str, Array],
        params: Mapping[str, Array],
        rows: Optional[Mapping[str, Gradients]] = None,
        event_time: Optional[float] = None,
    ) -> int: ...
    def pull_rows(
        self, table: str, ids: numpy.typing.ArrayLike, min_version: int = 0
    ) -> Array: ...
    def pull_table(self, table: str) -> Tuple[Array, Array]: ...
    def barrier(self, name: str) -> None: ...
    def complete(self) -> None: ...
    def save(self, delta: bool = False) -> int: ...
    def restore(self) -> int: ...
    def status(self) -> List[ServerStatus]: ...

def partition(
    variables: Mapping[str, Sequence[int]],
    servers: int,
    slice_var_up: bool = True,
    min_block_size: int = 8192,
    dispatcher: str = "round_robin",
) -> List[Slice]: ...
def row_buckets(ids: numpy.typing.ArrayLike) -> Array: ...
