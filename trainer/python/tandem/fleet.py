"""Distributed training with the names of Fleet: each rank runs the same script.

    from tandem import fleet
    fleet.init()
    optimizer = fleet.distributed_optimizer(tandem.optimizer.Adam(0.01), strategy)
    optimizer.minimize(loss)
    exe.run(tandem.default_startup_program())
    fleet.init_worker()
    ...                                      # exe.run(feed=...) with this rank's samples
    fleet.stop_worker()

`tandemrun --nproc=2 train.py` starts the ranks of collective mode, and
`tandemrun --servers=2 --workers=2 train.py` those of pserver mode. Without tandemrun the script is
a training of one process.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _core, programs
from .errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from .optimizer import Optimizer, ParamGrad
from .program import Program, StartupProgram, Variable, default_main_program
from .program import default_startup_program
from .scope import Scope, global_scope, save_params
from .strategy import BuildStrategy, DistributedStrategy, ExecutionStrategy
from .training import Training

__all__ = [
    "BuildStrategy",
    "DistributedStrategy",
    "ExecutionStrategy",
    "Fleet",
    "PaddleCloudRoleMaker",
    "Role",
    "UserDefinedRoleMaker",
    "distributed_optimizer",
    "init",
    "init_server",
    "init_worker",
    "is_first_worker",
    "is_server",
    "is_worker",
    "run_server",
    "save_persistables",
    "server_endpoints",
    "server_index",
    "server_num",
    "stop_worker",
    "worker_endpoints",
    "worker_index",
    "worker_num",
]

# The mode of the launcher (tandemrun).
MODE_VARIABLE = "TANDEM_MODE"


class Role:
    """The roles of a process."""

    WORKER = 1
    SERVER = 2


class PaddleCloudRoleMaker:
    """Takes the rank from the environment, as `fleet.init()` does.

    Args:
        is_collective: the ranks reduce gradients among themselves.
    """

    def __init__(self, is_collective: bool = False) -> None:
        self.is_collective = is_collective

    def environment(self) -> Dict[str, str]:
        """The variables of the rank."""
        return dict(os.environ)


class UserDefinedRoleMaker(PaddleCloudRoleMaker):
    """Takes the rank from its arguments.

    Args:
        current_id: number of this process among those of its role.
        role: Role.WORKER or Role.SERVER.
        worker_num: number of workers; None: the number of worker_endpoints.
        worker_endpoints: HOST:PORT of each worker.
        server_endpoints: HOST:PORT of each parameter server.
    """

    def __init__(
        self,
        is_collective: bool = False,
        current_id: int = 0,
        role: int = Role.WORKER,
        worker_num: Optional[int] = None,
        worker_endpoints: Optional[List[str]] = None,
        server_endpoints: Optional[List[str]] = None,
    ) -> None:
        super().__init__(is_collective)
        workers = worker_endpoints or []
        count = len(workers) if worker_num is None else worker_num
        self._variables = {
            "PADDLE_TRAINER_ID": str(current_id),
            "PADDLE_TRAINERS_NUM": str(max(count, 1)),
            "TRAINING_ROLE": "TRAINER" if role == Role.WORKER else "PSERVER",
        }
        if workers:
            self._variables["PADDLE_TRAINER_ENDPOINTS"] = ",".join(workers)
        if server_endpoints:
            self._variables["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(server_endpoints)
            if role == Role.SERVER:
                address = server_endpoints[current_id].rpartition(":")
                self._variables["POD_IP"], self._variables["PADDLE_PORT"] = address[::2]

    def environment(self) -> Dict[str, str]:
        """The variables of the rank."""
        return {**os.environ, **self._variables}


def _refuse(call: str, **given: Any) -> None:
    """Refuses the arguments that are not None."""
    for name, value in given.items():
        if value is not None:
            raise UnimplementedError(f"{call}: the argument {name} is not implemented [TD1109]")


class _DistributedOptimizer:
    """An optimizer whose gradients are those of all ranks."""

    def __init__(
        self, fleet: "Fleet", optimizer: Optimizer, strategy: Optional[DistributedStrategy]
    ) -> None:
        self._fleet = fleet
        self._optimizer = optimizer
        self._strategy = strategy

    def minimize(
        self,
        loss: Variable,
        startup_program: Optional[StartupProgram] = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
    ) -> Tuple[List[Any], List[ParamGrad]]:
        """Adds gradients, communication and updates to the program of `loss`.

        Returns:
            Two empty lists, as a placeholder for Fleet's operators and gradients: the passes of
            the strategy may merge them.

        Raises:
            InvalidArgumentError: a setting does not fit the mode; the message names each one.
            UnimplementedError: a setting needs a job file, or `parameter_list` or `no_grad_set`
                is given.
            FailedPreconditionError: the program has an optimizer already.
        """
        del startup_program  # the startup program of a program initialises all its states
        _refuse("minimize", parameter_list=parameter_list, no_grad_set=no_grad_set)
        self._fleet._add_training(self._optimizer, self._strategy, loss)
        return [], []


class Fleet:
    """The rank of this process, and the trainings that it takes part in.

    The functions of this module are the methods of one object. Not thread-safe.
    """

    def __init__(self) -> None:
        self._rank: Optional[_core.RankInfo] = None
        self._environment: Dict[str, str] = {}
        self._mode = "local"
        self._place = "cpu"
        self._strategy: Optional[DistributedStrategy] = None
        self._trainings: List[Training] = []
        self._options: List[Tuple[str, str]] = []

    def init(
        self,
        role_maker: Optional[PaddleCloudRoleMaker] = None,
        is_collective: Optional[bool] = None,
        strategy: Optional[DistributedStrategy] = None,
        place: Optional[str] = None,
        name: Optional[str] = None,
        start_timeout_s: float = 60,
        step_timeout_s: float = 60,
    ) -> None:
        """Reads the rank of this process. Must be called first.

        Args:
            role_maker: the source of the rank; None: the environment.
            is_collective: True: the ranks reduce gradients among themselves; None: the mode of
                tandemrun.
            strategy: the strategy of `distributed_optimizer`, unless it gets its own.
            place: "cpu" or "cuda:0"; None: the device that the launcher chose, else "cpu".
            name: the name of the job; None: that of tandemrun.
            start_timeout_s: seconds that this rank waits at the start for servers and ranks.
            step_timeout_s: seconds that a step waits for another process.

        Raises:
            InvalidArgumentError: a variable of the environment is wrong, or `is_collective`
                contradicts the launcher.
        """
        maker = PaddleCloudRoleMaker(bool(is_collective)) if role_maker is None else role_maker
        asked = maker.is_collective if is_collective is None else is_collective
        explicit = is_collective is not None or role_maker is not None
        self._environment = maker.environment()
        self._rank = _core.rank_from_env(self._environment)
        self._mode = self._choose_mode(asked, explicit)
        card = self._environment.get("FLAGS_selected_gpus", "")
        self._place = place if place is not None else f"cuda:{card}" if card else "cpu"
        self._strategy = strategy
        job = name if name is not None else self._environment.get("TANDEM_JOB", "python")
        self._options = [
            ("name", job),
            ("mode", self._mode),
            ("place", self._place),
            ("start_timeout_ms", str(int(start_timeout_s * 1000))),
            ("step_timeout_ms", str(int(step_timeout_s * 1000))),
        ]

    def _choose_mode(self, collective: bool, explicit: bool) -> str:
        assert self._rank is not None
        launched = self._environment.get(MODE_VARIABLE, "")
        if not launched:
            if collective:
                return "collective"
            return "pserver" if self._rank.pservers else "local"
        if collective and launched == "pserver":
            raise InvalidArgumentError(
                "fleet.init: is_collective=True, but the launcher started pserver mode [TD1005]",
                "tandemrun --nproc=N, or fleet.init() without is_collective",
            )
        if explicit and not collective and launched == "collective":
            raise InvalidArgumentError(
                "fleet.init: is_collective=False, but the launcher started collective mode [TD1005]",
                "tandemrun --servers=N --workers=N, or fleet.init() without is_collective",
            )
        return launched

    def _known(self, call: str) -> _core.RankInfo:
        if self._rank is None:
            raise FailedPreconditionError(
                f"fleet.{call} before fleet.init [TD1219]", "call fleet.init() first"
            )
        return self._rank

    # Ranks

    def worker_index(self) -> int:
        """The number of this worker, from 0."""
        return self._known("worker_index").rank

    def worker_num(self) -> int:
        """The number of workers."""
        return self._known("worker_num").size

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self._known("is_worker").role == "trainer"

    def is_first_worker(self) -> bool:
        """Whether this process is worker 0."""
        return self.is_worker() and self.worker_index() == 0

    def worker_endpoints(self, to_string: bool = False) -> Union[List[str], str]:
        """HOST:PORT of each worker; may be empty."""
        all_of = list(self._known("worker_endpoints").trainers)
        return ",".join(all_of) if to_string else all_of

    def is_server(self) -> bool:
        """Whether this process is a parameter server."""
        return self._known("is_server").role == "pserver"

    def server_num(self) -> int:
        """The number of parameter servers."""
        return len(self._known("server_num").pservers)

    def server_index(self) -> int:
        """The number of this parameter server, from 0."""
        return self._known("server_index").rank

    def server_endpoints(self, to_string: bool = False) -> Union[List[str], str]:
        """The address of each parameter server."""
        all_of = list(self._known("server_endpoints").pservers)
        return ",".join(all_of) if to_string else all_of

    # Training

    def distributed_optimizer(
        self, optimizer: Optimizer, strategy: Optional[DistributedStrategy] = None
    ) -> _DistributedOptimizer:
        """Returns an optimizer that uses the gradients of all ranks.

        Args:
            optimizer: computes the update.
            strategy: the settings; None: those of `init`, else the defaults.
        """
        self._known("distributed_optimizer")
        return _DistributedOptimizer(
            self, optimizer, self._strategy if strategy is None else strategy
        )

    def _add_training(
        self, optimizer: Optimizer, strategy: Optional[DistributedStrategy], loss: Variable
    ) -> None:
        if not isinstance(loss, Variable):
            raise InvalidArgumentError(
                f"minimize: expected a tandem.Variable, got {type(loss).__name__} [TD1206]"
            )
        program = loss.program
        if program.schedule is not None:
            raise FailedPreconditionError(
                f'program "{program.name}" already has an optimizer [TD1203]'
            )
        settings = [*self._options, ("seed", str(program.random_seed)), *optimizer.job_settings()]
        settings += list({} if strategy is None else strategy.settings().items())
        schedule = optimizer.schedule.build()
        training = Training(
            settings, self._place, self._environment, self._mode in ("pserver", "hybrid")
        )
        program.core.loss = loss.name
        training.core.add_to(program.core)
        program.schedule = schedule
        program._training = training
        self._trainings.append(training)

    def init_worker(self) -> None:
        """Allows the first step. Pserver and hybrid mode need this call."""
        self._known("init_worker")
        for training in self._trainings:
            training.start()

    def stop_worker(self) -> None:
        """Waits until all workers have ended their steps, and ends the training.

        Raises:
            AbortedError, DeadlineExceededError: a worker is lost or unresponsive.
        """
        self._known("stop_worker")
        for training in self._trainings:
            training.finish()
        self._trainings.clear()

    def init_server(self, dirname: Optional[str] = None) -> None:
        """Does nothing: a parameter server gets its parameters from worker 0.

        Raises:
            UnimplementedError: `dirname` is given. Load the parameters in the workers instead.
        """
        self._known("init_server")
        _refuse("fleet.init_server", dirname=dirname)

    def run_server(self) -> None:
        """Replaces this process by a parameter server (tandem-pserver). tandemrun starts servers
        itself.

        Raises:
            FailedPreconditionError: this process is no server, or the program cannot run.
            FileMissingError: the program is missing.
        """
        rank = self._known("run_server")
        if rank.role != "pserver":
            raise FailedPreconditionError(
                "fleet.run_server: this process is a worker [TD1219]", "check fleet.is_server()"
            )
        host, port = (self._environment.get(name, "") for name in ("POD_IP", "PADDLE_PORT"))
        if not host or not port:
            raise FailedPreconditionError(
                "fleet.run_server: the address of this server is unknown, because POD_IP or "
                "PADDLE_PORT is not set [TD1007]",
                "start the script with tandemrun --servers=N --workers=N",
            )
        address = f"{host}:{port}"
        program = self._environment.get("TANDEM_PSERVER") or programs.path("tandem-pserver")
        workers = self._environment.get("PADDLE_TRAINERS_NUM", "1")
        job = dict(self._options)["name"]
        arguments = [program, f"--listen={address}", f"--index={rank.rank}", f"--job={job}"]
        if self._environment.get("TANDEM_TLS_DIR"):
            arguments.append("--tls_dir=" + self._environment["TANDEM_TLS_DIR"])
        if self._environment.get("TANDEM_INSECURE_ALLOW_NETWORK") == "1":
            arguments.append("--insecure_allow_network")
        try:
            os.execvp(program, [*arguments, f"--trainers={workers}"])
        except OSError as error:
            raise FailedPreconditionError(
                f"fleet.run_server: cannot run {program}: {error.strerror} [TD7001]",
                "install the package tandem, or set TANDEM_PSERVER to the program's file",
            ) from None

    # Files

    def save_persistables(
        self,
        executor: Any,
        dirname: Union[str, "os.PathLike[str]"],
        main_program: Optional[Program] = None,
        scope: Optional[Scope] = None,
    ) -> None:
        """Worker 0 writes the parameters to `dirname`/params.safetensors.

        Args:
            executor: its place has the parameters.
            main_program: None: the current main program.
            scope: None: the global scope of the place.

        Raises:
            NotFoundError: a parameter has no value in the scope.
        """
        program = default_main_program() if main_program is None else main_program
        training = program._training
        if training is not None and training.core.joined:
            training.core.gather()
        if not self.is_first_worker():
            return
        os.makedirs(dirname, exist_ok=True)
        found = global_scope(executor.place) if scope is None else scope
        save_params(os.path.join(os.fspath(dirname), "params.safetensors"), program, found)

    @property
    def main_program(self) -> Program:
        """The current main program."""
        return default_main_program()

    @property
    def startup_program(self) -> StartupProgram:
        """The startup program of the current main program."""
        return default_startup_program()


_fleet = Fleet()
init = _fleet.init
worker_index = _fleet.worker_index
worker_num = _fleet.worker_num
worker_endpoints = _fleet.worker_endpoints
is_worker = _fleet.is_worker
is_first_worker = _fleet.is_first_worker
is_server = _fleet.is_server
server_num = _fleet.server_num
server_index = _fleet.server_index
server_endpoints = _fleet.server_endpoints
distributed_optimizer = _fleet.distributed_optimizer
init_worker = _fleet.init_worker
stop_worker = _fleet.stop_worker
init_server = _fleet.init_server
run_server = _fleet.run_server
save_persistables = _fleet.save_persistables
