"""The strategy of a distributed training, with the field names of Fleet.

    strategy = tandem.fleet.DistributedStrategy()
    strategy.fuse_all_reduce_ops = True
    strategy.amp = True
    strategy.amp_configs = {"init_loss_scaling": 128}

The fields are those of `strategy { ... }` of a job (docs/reference/knobs.md).
"""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Sequence, Union

from . import _core
from .errors import InvalidArgumentError

__all__ = ["BuildStrategy", "DistributedStrategy", "ExecutionStrategy"]

Scalar = Union[bool, int, float, str]
Value = Union[Scalar, Sequence[Scalar]]


def _text(name: str, value: Any) -> str:
    """Returns the value as in a job file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_text(name, item) for item in value) + "]"
    raise InvalidArgumentError(
        f"setting {name}: expected a bool, a number, a str or a list of them, got {value!r} "
        "[TD1102]"
    )


class _Group:
    """A group of fields of the strategy. The first assignment of a field checks it."""

    _group = ""

    def __init__(self) -> None:
        object.__setattr__(self, "_fields", _core.Strategy())
        object.__setattr__(self, "_given", {})

    def __setattr__(self, name: str, value: Value) -> None:
        text = _text(name, value)
        self._fields.set(f"{self._group}.{name}", text)
        self._given[name] = text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._fields.get(f"{self._group}.{name}")
        except LookupError as error:
            raise AttributeError(str(error)) from None

    def settings(self) -> Dict[str, str]:
        """The fields that were set, by name, as text."""
        return {f"{self._group}.{name}": text for name, text in self._given.items()}


class BuildStrategy(_Group):
    """The passes over the program (`build_strategy { ... }`).

    Raises:
        InvalidArgumentError: there is no such field, or its value is wrong.
    """

    _group = "build_strategy"

    class ReduceStrategy:
        """Which rank updates a parameter: all ranks, or one rank for each parameter."""

        AllReduce = "AllReduce"
        Reduce = "Reduce"

    class GradientScaleStrategy:
        """The first gradient of the loss."""

        CoeffNumDevice = "CoeffNumDevice"
        One = "One"
        Customized = "Customized"


class ExecutionStrategy(_Group):
    """How the executor runs (`execution_strategy { ... }`).

    Raises:
        InvalidArgumentError: there is no such field, or its value is wrong.
    """

    _group = "execution_strategy"


class DistributedStrategy:
    """The settings of a distributed training. Each field is an attribute.

    A field may be any knob by any of its names: `tandem knobs list`. A group such as
    `amp_configs` takes a dictionary. `build_strategy` and `execution_strategy` also take their
    classes. The assignment of a field checks its name, type and range.

    Raises:
        InvalidArgumentError: there is no such field, or its value is wrong. The hint has the most
            similar name.
    """

    def __init__(self) -> None:
        object.__setattr__(self, "_fields", _core.Strategy())
        object.__setattr__(self, "_given", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, _Group):
            if value._group != name:
                raise InvalidArgumentError(
                    f"setting {name}: got a {type(value).__name__}, which is for "
                    f"{value._group} [TD1102]"
                )
            self._set_all(value.settings())
        elif isinstance(value, Mapping):
            self._set_all({f"{name}.{key}": _text(key, item) for key, item in value.items()})
        else:
            self._set_all({name: _text(name, value)})

    def _set_all(self, settings: Mapping[str, str]) -> None:
        for name, text in settings.items():
            self._fields.set(name, text)
            self._given[name] = text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._fields.get(name)
        except LookupError as error:
            raise AttributeError(str(error)) from None

    def save_to_prototxt(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the fields that were set, as `strategy { ... }` of a job has them."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._fields.to_text())

    def load_from_prototxt(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Replaces all fields by those of a file that save_to_prototxt or Fleet wrote.

        Raises:
            FileMissingError: there is no such file.
            InvalidArgumentError: the file has an error. The message has each line with an error.
        """
        given = self._fields.load(os.fspath(path))
        object.__setattr__(self, "_given", dict(given))

    def settings(self) -> Dict[str, str]:
        """The fields that were set, by name, as text."""
        return dict(self._given)

    def __repr__(self) -> str:
        text: str = self._fields.to_text()
        return text
