"""Scopes: the variables that live from run to run."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    NamedTuple,
    Optional,
    Tuple,
    Union,
)

import numpy
import numpy.typing

from . import _core
from .program import Program, Variable, default_main_program

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "Scope",
    "global_scope",
    "load_params",
    "params_sha256",
    "save_params",
    "scope_guard",
]

Array = numpy.typing.NDArray[Any]
Path = Union[str, "os.PathLike[str]"]


def CPUPlace() -> str:
    """The place of the processor: "cpu"."""
    return "cpu"


def CUDAPlace(index: int = 0) -> str:
    """The place of a CUDA device: "cuda:<index>"."""
    return f"cuda:{index}"


class RecentPlan(NamedTuple):
    """The plan that a scope ran last, which Executor.run tries first."""

    program: "weakref.ref[Program]"
    version: int  # of the program
    key: Tuple[Any, ...]  # names of the fetch list and threads (Executor.run)
    plan: _core.Plan


class Scope:
    """Parameters and states on one place.

    Thread-safe: runs of one scope exclude each other.

    Attributes:
        core: the scope of the C++ library.
        step: the number of training steps so far. It selects the learning rate of a schedule.
            The startup program sets it to 0; set it to continue a training.

    Raises:
        UnavailableError, InvalidArgumentError: this machine lacks the place.
    """

    def __init__(self, place: str = "cpu") -> None:
        self.core = _core.Scope(place)
        self._recent: Optional[RecentPlan] = None
        # For each program: its version and the plans of this version by key (Executor._plan).
        self._plans: MutableMapping[
            Program, Tuple[int, Dict[Tuple[Any, ...], _core.Plan]]
        ] = weakref.WeakKeyDictionary()

    def _remember(
        self, program: Program, version: int, key: Tuple[Any, ...], plan: _core.Plan
    ) -> None:
        """Makes `plan` the recent one. The scope forgets it when the program ends."""
        own = weakref.ref(self)

        def forget(_: Any) -> None:
            if (scope := own()) is not None:
                scope._recent = None

        self._recent = RecentPlan(weakref.ref(program, forget), version, key, plan)

    @property
    def step(self) -> int:
        """The number of training steps so far. Threads may read and set it."""
        return self.core.step

    @step.setter
    def step(self, value: int) -> None:
        """Sets the number, to continue a training."""
        self.core.step = value

    @property
    def place(self) -> str:
        """The place, for example "cpu"."""
        return self.core.place

    def names(self) -> List[str]:
        """The names of all variables."""
        return self.core.names()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.core

    def find(self, name: Union[str, Variable]) -> _core.Tensor:
        """Returns the tensor of a variable. It shares the memory, so later runs change it.

        Raises:
            NotFoundError: the scope has no such variable.
        """
        return self.core.find(name.name if isinstance(name, Variable) else name)

    def get(self, name: Union[str, Variable]) -> Array:
        """Returns a copy of the values of a variable."""
        return self.find(name).numpy()

    def set(self, name: Union[str, Variable], value: numpy.typing.ArrayLike) -> None:
        """Sets the values of a variable, or declares it.

        Raises:
            FailedPreconditionError: the variable has another shape or element type.
        """
        key = name.name if isinstance(name, Variable) else name
        self.core.set(key, numpy.asarray(value))


_scopes: Dict[str, Scope] = {}
_opening = threading.Lock()


class _Current(threading.local):
    def __init__(self) -> None:
        self.stack: List[Scope] = []


_current = _Current()


def global_scope(place: str = "cpu") -> Scope:
    """Returns the scope of the innermost `scope_guard` of this thread, else the one of all
    executors of the place."""
    if _current.stack:
        return _current.stack[-1]
    with _opening:
        if place not in _scopes:
            _scopes[place] = Scope(place)
        return _scopes[place]


@contextlib.contextmanager
def scope_guard(scope: Scope) -> Iterator[Scope]:
    """Makes `scope` the global scope of this thread inside a `with` block."""
    _current.stack.append(scope)
    try:
        yield scope
    finally:
        _current.stack.pop()


def _parameters(program: Optional[Program]) -> List[str]:
    chosen = default_main_program() if program is None else program
    return [variable.name for variable in chosen.all_parameters()]


def save_params(
    path: Path,
    program: Optional[Program] = None,
    scope: Optional[Scope] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> None:
    """Writes the parameters of a program as a safetensors file.

    Jobs read it with `model { parameters: "..." }`, and other libraries with their own readers.

    Raises:
        NotFoundError: a parameter has no value in the scope.
    """
    found = global_scope() if scope is None else scope
    found.core.save_safetensors(os.fspath(path), _parameters(program), dict(metadata or {}))


def load_params(path: Path, scope: Optional[Scope] = None) -> List[str]:
    """Sets the variables of a safetensors file and returns their names.

    Raises:
        FileMissingError: there is no such file.
        DataLossError: the file is damaged.
        FailedPreconditionError: a variable has another shape or element type.
    """
    found = global_scope() if scope is None else scope
    return found.core.load_safetensors(os.fspath(path))


def params_sha256(program: Optional[Program] = None, scope: Optional[Scope] = None) -> str:
    """Returns the SHA-256 of the parameters, as jobs print it (`params sha256`)."""
    found = global_scope() if scope is None else scope
    return found.core.sha256(_parameters(program))
