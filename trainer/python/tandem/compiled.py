"""Programs with the passes of a build strategy, with the names of Paddle.

    build = tandem.BuildStrategy()
    build.fuse_all_optimizer_ops = True
    compiled = tandem.CompiledProgram(program).with_data_parallel(build_strategy=build)
    exe.run(compiled, feed=..., fetch_list=[loss])

`ParallelExecutor` is the older name of the same. For several ranks use `tandem.fleet`.
"""

from __future__ import annotations

import os
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from .errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from .program import Program, Variable, default_main_program
from .scope import Array, Scope, global_scope
from .strategy import BuildStrategy, ExecutionStrategy
from .training import Training

if TYPE_CHECKING:
    from . import _core
    from .executor import Executor

__all__ = ["CompiledProgram", "ParallelExecutor"]


class CompiledProgram:
    """A program with the passes of a build strategy. `Executor.run` accepts it.

    The passes run when the program is first run in a scope. The parameters and the states of the
    optimizer have the names that they have in `program`, so both may run in one scope.

    Args:
        program: a program with or without an optimizer.
        build_strategy: the passes.
    """

    def __init__(self, program: Program, build_strategy: Optional[BuildStrategy] = None) -> None:
        if not isinstance(program, Program):
            raise InvalidArgumentError(
                f"CompiledProgram: expected a tandem.Program, got {type(program).__name__} [TD1206]"
            )
        self.source = program
        self._build = build_strategy
        self._execution: Optional[ExecutionStrategy] = None
        # By scope: the version of the source, and the program with its passes.
        self._compiled: MutableMapping[
            Scope, Tuple[int, Program]
        ] = weakref.WeakKeyDictionary()

    def with_data_parallel(
        self,
        loss_name: Optional[str] = None,
        build_strategy: Optional[BuildStrategy] = None,
        exec_strategy: Optional[ExecutionStrategy] = None,
        share_vars_from: Optional["CompiledProgram"] = None,
        places: Any = None,
    ) -> "CompiledProgram":
        """Sets the strategies and returns the program.

        Args:
            loss_name: Paddle's argument; the loss is the one of `minimize`.
            build_strategy: the passes; None: those of the constructor.
            exec_strategy: how the executor runs.
            share_vars_from: Paddle's argument; programs of one scope share their variables.
            places: Paddle's argument; the executor has the place. Tandem runs on one.

        Raises:
            UnimplementedError: several places are given.
        """
        del loss_name, share_vars_from
        if isinstance(places, (list, tuple)) and len(places) > 1:
            raise UnimplementedError(
                f"with_data_parallel with {len(places)} places is not implemented [TD1109]",
                "tandem.fleet with tandemrun --nproc=N",
            )
        if build_strategy is not None:
            self._build = build_strategy
        self._execution = exec_strategy
        self._compiled.clear()
        return self

    @property
    def iterations(self) -> int:
        """Runs of the program in one call of `Executor.run`."""
        return 1 if self._execution is None else int(self._execution.num_iteration_per_run)

    def program_for(self, scope: Scope) -> Program:
        """Returns the program with its passes, for runs in a scope.

        Raises:
            InvalidArgumentError: a field of a strategy does not fit.
            FailedPreconditionError: the program is part of a training with other ranks, or layers
                were added after `minimize`.
        """
        version, compiled = self._compiled.get(scope, (-1, self.source))
        if version != self.source.core.version:
            compiled = self._compile(scope.place)
            self._compiled[scope] = (self.source.core.version, compiled)
        return compiled

    def _compile(self, place: str) -> Program:
        source = self.source
        if source._training is not None:
            raise FailedPreconditionError(
                "the program has a distributed optimizer already [TD1219]",
                "set build_strategy of fleet.DistributedStrategy",
            )
        recipe = source._recipe
        if source.schedule is not None and recipe is None:
            raise FailedPreconditionError(
                "the passes need a program whose optimizer was added by minimize [TD1219]",
                "call optimizer.minimize(loss) instead of append_backward and apply_gradients",
            )
        if recipe is not None and recipe.version != source.core.version:
            raise FailedPreconditionError(
                f'program "{source.name}" changed after minimize, and its passes begin before it '
                "[TD1219]",
                "add all layers before optimizer.minimize(loss)",
            )
        settings = [("mode", "local"), ("place", place), ("seed", str(source.random_seed))]
        for group in (self._build, self._execution):
            settings += list({} if group is None else group.settings().items())
        if recipe is not None:
            settings += recipe.settings
        # The program runs in this process alone, also where a launcher has given it a rank.
        knobs = {k: v for k, v in os.environ.items() if k.startswith("FLAGS_") or k == "CPU_NUM"}
        training = Training(settings, place, knobs)
        compiled = Program(core=(source.core if recipe is None else recipe.forward).clone())
        compiled.core.loss = "" if recipe is None else recipe.loss
        training.core.add_to(compiled.core)
        compiled.schedule = source.schedule
        compiled.random_seed = source.random_seed
        compiled._readers = source._readers
        compiled._training = training
        return compiled


class ParallelExecutor:
    """Runs one program with strategies.

    Args:
        use_cuda: run on the first CUDA device; False: on the CPU.
        loss_name: Paddle's argument; the loss is the one of `minimize`.
        main_program: None: the current main program.
        share_vars_from: another ParallelExecutor, whose variables this one uses.
        exec_strategy, build_strategy: the strategies.
        num_trainers, trainer_id: 1 and 0; use tandem.fleet for several ranks.
        scope: None: that of `share_vars_from`, else the global scope of the place.

    Raises:
        InvalidArgumentError: num_trainers is above 1.
    """

    def __init__(
        self,
        use_cuda: bool = False,
        loss_name: Optional[str] = None,
        main_program: Optional[Program] = None,
        share_vars_from: Optional["ParallelExecutor"] = None,
        exec_strategy: Optional[ExecutionStrategy] = None,
        build_strategy: Optional[BuildStrategy] = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Optional[Scope] = None,
    ) -> None:
        from .executor import Executor  # imports this module

        if num_trainers != 1 or trainer_id != 0:
            raise InvalidArgumentError(
                f"ParallelExecutor: num_trainers is {num_trainers}, expected 1 [TD1104]",
                "tandem.fleet with tandemrun --nproc=N",
            )
        place = "cuda:0" if use_cuda else "cpu"
        program = default_main_program() if main_program is None else main_program
        self._program = CompiledProgram(program, build_strategy).with_data_parallel(
            loss_name, exec_strategy=exec_strategy
        )
        self._executor: Executor = Executor(place)
        shared = None if share_vars_from is None else share_vars_from.scope
        self.scope: Scope = scope or shared or global_scope(place)

    def run(
        self,
        fetch_list: Sequence[Union[Variable, str]],
        feed: Optional[Mapping[str, Any]] = None,
        feed_dict: Optional[Mapping[str, Any]] = None,
        return_numpy: bool = True,
    ) -> Union[List[Array], List["_core.Tensor"]]:
        """Runs the program, num_iteration_per_run times, and returns the fetched values.

        `feed_dict` is the older name of `feed`. See Executor.run.
        """
        given = feed if feed is not None else feed_dict
        if return_numpy:
            return self._executor.run(self._program, given, fetch_list, self.scope)
        return self._executor.run(
            self._program, given, fetch_list, self.scope, return_numpy=False
        )

    def drop_local_exe_scopes(self) -> None:
        """Does nothing: the plan reuses its memory."""
