"""Runs programs."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union, overload

import numpy
import numpy.typing
from typing import Literal

from . import _core
from .compiled import CompiledProgram
from .errors import InvalidArgumentError
from .program import Program, StartupProgram, Variable, default_main_program
from .reader import next_feeds
from .scope import Array, Scope, global_scope
from .training import PLANS_MAX, Training

__all__ = ["Executor"]

Feed = Mapping[str, Any]
Fetch = Sequence[Union[Variable, str]]
Callback = Callable[[int], Optional[Feed]]
_Key = Tuple[Any, ...]

_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "uint16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
}


def _before(feeds: Sequence[Feed], callback: Optional[Callback]) -> Optional[Callback]:
    """Returns a callback that feeds batch i before iteration i, and then calls `callback`."""
    if len(feeds) == 1:
        return callback

    def before(iteration: int) -> Feed:
        given = None if callback is None else callback(iteration)
        return {**feeds[iteration], **(given or {})}

    return before


class Executor:
    """Runs programs on a place.

    Thread-safe. Threads that share a scope wait for each other; with separate scopes they run
    at the same time. A run releases Python's lock while it computes.

    Args:
        place: "cpu" or "cuda:0" (also CPUPlace() and CUDAPlace(0)).
        threads: threads of an operator; None: the number of processors. The results of some
            operators depend on it in the last bits.
        num_threads: operators that may run at the same time. It does not change results.

    Raises:
        InvalidArgumentError: a number of threads is below 1.
    """

    def __init__(
        self, place: str = "cpu", threads: Optional[int] = None, num_threads: int = 1
    ) -> None:
        self.place = place
        self._asked = 0 if threads is None else threads
        self.threads = (os.cpu_count() or 1) if threads is None else threads
        self.num_threads = num_threads
        if self.threads < 1 or num_threads < 1:
            raise InvalidArgumentError(
                f"threads is {self.threads}, num_threads is {num_threads}, expected at least 1 "
                "[TD1104]"
            )

    @overload
    def run(
        self,
        program: Union[Program, CompiledProgram, StartupProgram, None] = ...,
        feed: Optional[Feed] = ...,
        fetch_list: Fetch = ...,
        scope: Optional[Scope] = ...,
        return_numpy: Literal[True] = ...,
        iterations: int = ...,
        before_iteration: Optional[Callback] = ...,
    ) -> List[Array]:
        ...

    @overload
    def run(
        self,
        program: Union[Program, CompiledProgram, StartupProgram, None] = ...,
        feed: Optional[Feed] = ...,
        fetch_list: Fetch = ...,
        scope: Optional[Scope] = ...,
        *,
        return_numpy: Literal[False],
        iterations: int = ...,
        before_iteration: Optional[Callback] = ...,
    ) -> List[_core.Tensor]:
        ...

    def run(
        self,
        program: Union[Program, CompiledProgram, StartupProgram, None] = None,
        feed: Optional[Feed] = None,
        fetch_list: Fetch = (),
        scope: Optional[Scope] = None,
        return_numpy: bool = True,
        iterations: int = 1,
        before_iteration: Optional[Callback] = None,
    ) -> Union[List[Array], List[_core.Tensor]]:
        """Feeds arrays, runs the program, and returns the fetched values.

        A program with an optimizer trains one step in each iteration. After an error `Scope.step` is
        that of before, though iterations before the error have changed the parameters. A startup
        program sets the initial values of its program.

        Args:
            program: None: the current main program.
            feed: arrays by the names of the data variables; None: the next batch of the readers of
                the program (tandem.reader), or nothing. An array of numpy, or of another
                library with DLPack, must have the element type of the variable; lists and numbers
                are converted.
            fetch_list: variables, or names of variables.
            scope: None: the global scope.
            return_numpy: False: returns tensors that share the memory of the plan, without a
                copy. The next run of the program changes them.
            iterations: runs in this call. The results are those of the last one. With readers,
                each run takes a batch; fewer runs are done if the readers end, or if a batch has
                another size.
            before_iteration: called before each iteration with its number. It may return arrays
                for the feed of this iteration.

        Raises:
            InvalidArgumentError: an array has a wrong shape or type, or is missing.
            NotFoundError: there is no variable of a fed or fetched name.
            FailedPreconditionError: a parameter has no value; run the startup program first.
            EOFException: a reader of the program has no more batches.
            KeyboardInterrupt: Ctrl-C; the current iteration has ended.
        """
        found = global_scope(self.place) if scope is None else scope
        if type(program) is Program:
            chosen = program
        elif isinstance(program, StartupProgram):
            return self._start(program, found)
        elif isinstance(program, CompiledProgram):
            iterations *= program.iterations
            chosen = program.program_for(found)
        elif program is None:
            chosen = default_main_program()
        else:
            raise InvalidArgumentError(
                f"run: expected a tandem.Program, got {type(program).__name__} [TD1206]"
            )
        if feed is None and chosen._readers:
            feeds = next_feeds(chosen, iterations)
            feed, iterations = feeds[0], len(feeds)
            before_iteration = _before(feeds, before_iteration)
        names = [f.name if type(f) is Variable else self._name(f) for f in fetch_list]
        version = chosen.core.version
        key = (names, self.threads, self.num_threads)
        recent = found._recent
        if (
            recent is not None
            and recent.program() is chosen
            and recent.version == version
            and recent.key == key
            and type(feed) is dict
        ):
            # The plan returns None if the feed needs another plan, or a conversion.
            results = recent.plan.run(
                feed,
                chosen.schedule,
                chosen.random_seed,
                iterations,
                before_iteration,
                return_numpy,
                True,
            )
            if results is not None:
                return results
        arrays: Dict[str, Array] = {}
        for name, value in (feed or {}).items():
            arrays[name] = self._converted(chosen, name, value)
        training = chosen._training
        if training is None:
            plan = self._plan(chosen, found, arrays, names)
            found._remember(chosen, version, key, plan)
        else:
            plan = self._joined_plan(chosen, training, found, arrays, names)
        every = plan.run(
            arrays,
            chosen.schedule,
            chosen.random_seed,
            iterations,
            before_iteration,
            return_numpy,
        )
        return every if training is None else [every[i] for i in training.select(names)]

    def _start(self, startup: StartupProgram, scope: Scope) -> List[Array]:
        if startup.program is not None:
            scope.core.initialize(startup.program.core, startup.random_seed)
            for name, value in startup.values.items():
                scope.set(name, value)
            scope.step = 0
        return []

    @staticmethod
    def _converted(program: Program, name: str, value: Any) -> Array:
        if isinstance(value, numpy.ndarray):
            return value
        if hasattr(value, "__dlpack__"):
            shared: Array = numpy.from_dlpack(value)
            return shared
        if program.core.has_var(name):
            return numpy.asarray(value, _NUMPY[program.core.dtype(name)])
        return numpy.asarray(value)

    def _plan(
        self, program: Program, scope: Scope, arrays: Dict[str, Array], fetch: List[str]
    ) -> _core.Plan:
        shapes = tuple([(name, array.shape) for name, array in arrays.items()])
        version, plans = scope._plans.get(program, (-1, {}))
        # The key has names, because variables in it would keep the program and its plans alive.
        key: _Key = (shapes, tuple(fetch), self.threads, self.num_threads)
        plan = plans.get(key)
        if plan is not None and version == program.core.version:
            return plan
        if version != program.core.version:
            plans = {}
            scope._plans[program] = (program.core.version, plans)
        plan = _core.Plan(
            program.core,
            scope.core,
            {name: list(shape) for name, shape in shapes},
            fetch,
            self.threads,
            self.num_threads,
        )
        while len(plans) >= PLANS_MAX:
            plans.pop(next(iter(plans)))
        plans[key] = plan
        return plan

    def _joined_plan(
        self,
        program: Program,
        training: Training,
        scope: Scope,
        arrays: Dict[str, Array],
        fetch: List[str],
    ) -> _core.Plan:
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        plan = training.plan(program.core, scope.core, shapes, fetch, self._asked)
        if program.schedule is not None and not training.core.joined:
            scope.step = plan.join(scope.step)
        return plan

    @staticmethod
    def _name(fetch: Union[Variable, str]) -> str:
        if isinstance(fetch, str):
            return fetch
        if isinstance(fetch, Variable):
            return fetch.name
        raise InvalidArgumentError(
            f"fetch_list: expected variables or names, got {type(fetch).__name__} [TD1206]"
        )
