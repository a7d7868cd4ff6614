"""The networks of the model zoo, with their loss and metrics."""

from __future__ import annotations

from typing import Union

from . import _core
from .program import Program

__all__ = ["build", "describe"]


def build(model: str, **args: Union[str, int, float]) -> Program:
    """Returns a network as a job gets it by `model { zoo: "..." arg { ... } }`.

    Args:
        model: the name, for example "lenet".
        args: its arguments; numbers in a list are text: channels="8,16".

    Raises:
        NotFoundError: there is no such model.
        InvalidArgumentError: an argument is unknown, or its value is wrong.
    """
    return Program(core=_core.Program.from_zoo(model, {k: str(v) for k, v in args.items()}))


def describe() -> str:
    """Returns all models with their arguments and defaults, as text."""
    return _core.list_models_text()
