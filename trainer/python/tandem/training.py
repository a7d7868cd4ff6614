"""The training of a program with other ranks or with parameter servers.

`fleet.distributed_optimizer` makes it; `Executor.run` runs its steps.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from types import TracebackType
from typing import Any, Dict, List, Mapping, NoReturn, Optional, Sequence, Tuple, Type

from . import _core
from .errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["PLANS_MAX", "Training"]

# Maximum number of plans of a program in one scope. Each plan has its own memory.
PLANS_MAX = 16


class Training:
    """One rank's part of a training. The C++ library has the rules of each mode.

    Not thread-safe. A program ends its training at its exit, or by `finish`. An uncaught exception
    ends the training of all ranks.

    Args:
        settings: fields of a job and knobs, as names and texts.
        place: the place on which the program must run.
        environment: the variables with the rank, and knobs such as FLAGS_*.
        awaits_start: the program must call `start` before its first step.
    """

    def __init__(
        self,
        settings: Sequence[Tuple[str, str]],
        place: str,
        environment: Mapping[str, str],
        awaits_start: bool = False,
    ) -> None:
        self.core = _core.Training(list(settings), environment)
        if self.core.rank == 0:
            sys.stderr.write(self.core.notes)
        self.place = place
        self.awaits_start = awaits_start
        # A training with other ranks has one plan, because its communication belongs to a plan.
        self.alone = dict(settings).get("mode") == "local"
        self._plans: Dict[Any, _core.Plan] = {}
        self._scope: Optional[_core.Scope] = None
        self._version = -1  # of the program, in the first step
        self._shapes: Mapping[str, Sequence[int]] = {}
        self._fetch: List[str] = []
        self._threads = 0  # of the executor, in the first step
        _register(self)

    def start(self) -> None:
        """Allows the first step (`fleet.init_worker`)."""
        self.awaits_start = False

    def plan(
        self,
        program: _core.Program,
        scope: _core.Scope,
        shapes: Mapping[str, Sequence[int]],
        fetch: Sequence[str],
        threads: int,
    ) -> _core.Plan:
        """Returns the plan of a step. With other ranks, one plan serves all steps.

        Raises:
            FailedPreconditionError: the program needs another plan than in its first step, or
                `fleet.init_worker()` was not called.
        """
        if self.awaits_start:
            raise FailedPreconditionError(
                "the program runs a training step before fleet.init_worker() [TD1219]",
                "call fleet.init_worker() after the startup program",
            )
        if scope.place != self.place:
            raise InvalidArgumentError(
                f"the executor runs on {scope.place}, but the training was built for {self.place} "
                "[TD1206]",
                f'fleet.init(place="{scope.place}")',
            )
        if self._version != program.version and self._plans:
            raise FailedPreconditionError(
                f'program "{program.name}" changed after the first step of its training [TD1219]',
                "add all layers before the first run",
            )
        self._version = program.version
        if self._scope is not None and self._scope is not scope:
            raise FailedPreconditionError(
                "the training runs in another scope than in its first step [TD1219]",
                "give all steps the same scope",
            )
        self._scope = scope
        if not self.alone:
            if not self._plans:
                self._shapes, self._fetch = dict(shapes), self._names(program, fetch)
                self._threads = threads
            self._check(shapes, fetch, threads)
            shapes, fetch = self._shapes, self._fetch
        key = (tuple((name, tuple(dims)) for name, dims in shapes.items()), tuple(fetch), threads)
        if key not in self._plans:
            while len(self._plans) >= PLANS_MAX:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = _core.Plan(
                program, scope, shapes, fetch, threads=threads, training=self.core
            )
        return self._plans[key]

    @staticmethod
    def _names(program: _core.Program, fetch: Sequence[str]) -> List[str]:
        loss = [program.loss] if program.loss else []
        return list(dict.fromkeys([*fetch, *loss, *program.metrics]))

    def _check(
        self, shapes: Mapping[str, Sequence[int]], fetch: Sequence[str], threads: int
    ) -> None:
        if threads != self._threads:
            raise FailedPreconditionError(
                "the executor has another number of threads than in the first step of the training "
                "[TD1219]",
                "run all steps with one tandem.Executor",
            )
        for name, dims in shapes.items():
            first = self._shapes.get(name)
            if first is not None and list(first) != list(dims):
                raise FailedPreconditionError(
                    f'feed "{name}": the array has the shape {list(dims)}, but {list(first)} in the '
                    "first step; all steps of a distributed training have one batch size [TD1207]",
                    "leave out the last samples of an epoch if they are fewer than a batch",
                )
        for name in fetch:
            if name not in self._fetch:
                raise FailedPreconditionError(
                    f'fetch_list: "{name}" was not fetched in the first step of the training '
                    "[TD1205]",
                    f'fetch "{name}" in the first step too',
                )

    def select(self, fetch: Sequence[str]) -> List[int]:
        """Returns the positions of the fetched variables in the results of the plan."""
        if self.alone:
            return list(range(len(fetch)))
        return [self._fetch.index(name) for name in fetch]

    def finish(self) -> None:
        """Waits until all ranks have ended their steps. Does nothing before the first step.

        Raises:
            AbortedError, DeadlineExceededError: a rank is lost or unresponsive.
        """
        if self.core.joined:
            self.core.finish()

    def abort(self, why: str) -> None:
        """Tells the other ranks that this rank gives up."""
        if self.core.joined:
            self.core.abort(why)


_trainings: "weakref.WeakSet[Training]" = weakref.WeakSet()


class _ProgramEnd:
    """Ends the trainings of this process when the program ends.

    An uncaught exception and `sys.exit` with an error abort them, any other end finishes them. If a
    training cannot finish, the process ends with exit code 1.
    """

    def __init__(self) -> None:
        self._why = ""  # reason to abort; "": the program has not failed
        self._hook = sys.excepthook
        self._exit = sys.exit
        sys.excepthook = self._note
        sys.exit = self._note_exit
        atexit.register(self._end)

    def _note(
        self, kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]
    ) -> None:
        self._why = f"{kind.__name__} ended the program"
        self._hook(kind, error, trace)

    def _note_exit(self, status: Any = None, /) -> NoReturn:
        if status not in (None, 0):
            self._why = "sys.exit ended the program with an error"
        self._exit(status)

    def _end(self) -> None:
        failed = False
        for training in list(_trainings):
            if self._why or failed:
                training.abort(self._why or "another training of the program failed")
                continue
            try:
                training.finish()
            except Exception as error:  # pylint: disable=broad-except
                failed = True
                self._hook(type(error), error, error.__traceback__)
        if failed:  # at its exit, Python would ignore the exception
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)


_ends: List[_ProgramEnd] = []


def _register(training: Training) -> None:
    if not _ends:
        _ends.append(_ProgramEnd())
    _trainings.add(training)
