"""The optimizer of PyTorch models whose tables, and if wanted all parameters, are on servers."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy
import torch

from .. import _core
from ..errors import InvalidArgumentError
from .table_rows import RowPulls
from .tables import Table, TableState

__all__ = ["Optimizer"]


class Optimizer:
    """Updates a model on parameter servers.

    The tables of the model are on the servers. Its other parameters are too, and each step gets
    their new values, unless `dense` updates them in this process. Not thread-safe.

    Args:
        model: a module on the CPU with f32 parameters.
        kind: sgd, momentum, adagrad, adam, ... of the servers (docs/reference/operators.md).
        lr: the learning rate; `optimizer.lr = 0.01` changes it.
        attrs: attributes of the optimizer, such as {"mu": 0.9} or {"lazy_mode": True}.
        mode: "sync": a step waits for the gradients of all trainers; "a_sync": it does not.
        dense: an optimizer of torch for the parameters outside the tables; the caller makes them
            equal on all trainers.
        servers, job, trainer, trainers, secret: None: from the environment that tandemrun sets.
        seed: of the first values of rows.
        tls: see tandem.ps.Client.
        insecure_allow_network: see tandem.ps.Client; None: from the environment.
        row_cache_mb: memory in MiB for pulled rows, which a_sync mode reuses; 0: no cache.
        row_cache_versions: a reused row lacks at most this number of pushes before this trainer's
            last pull, and those after it; 0: rows are not reused.
        start_timeout: seconds that servers and first values may take.
        step_timeout: seconds that a step, or a restarted server, may take.

    Raises:
        InvalidArgumentError: there are no servers, a parameter is not f32 on the CPU, there is a
            cache in sync mode, or only one of its two settings is given.
        Error: a server refuses the job, or does not reply.
    """

    def __init__(
        self,
        model: Any,
        kind: str = "sgd",
        lr: float = 0.01,
        attrs: Optional[Mapping[str, Any]] = None,
        mode: str = "sync",
        dense: Optional[Any] = None,
        servers: Optional[Sequence[str]] = None,
        job: Optional[str] = None,
        trainer: Optional[int] = None,
        trainers: Optional[int] = None,
        secret: Optional[str] = None,
        seed: int = 1,
        tls: Any = None,
        insecure_allow_network: Optional[bool] = None,
        row_cache_mb: float = 0,
        row_cache_versions: int = 0,
        start_timeout: float = 60.0,
        step_timeout: float = 60.0,
    ) -> None:
        self.lr = lr
        self._dense = dense
        self._sync = mode == "sync"
        if row_cache_mb and self._sync:
            raise InvalidArgumentError(
                f"row_cache_mb is {row_cache_mb}, but each step of sync mode pulls new rows [TD1006]",
                'mode="a_sync", or row_cache_mb=0',
            )
        if (row_cache_mb > 0) != (row_cache_versions > 0):
            raise InvalidArgumentError(
                f"row_cache_mb is {row_cache_mb} and row_cache_versions is {row_cache_versions}, "
                "but one has no effect without the other [TD1006]",
                "set both or none",
            )
        self._tables = {n: m for n, m in model.named_modules() if isinstance(m, Table)}
        self._params = {} if dense is not None else dict(self._checked(model))
        # The arrays share the memory of the parameters, so received values are in the model.
        self._arrays = {n: p.detach().numpy() for n, p in self._params.items()}
        rank = _core.rank_from_env(dict(os.environ))
        addresses = list(rank.pservers) if servers is None else list(servers)
        if not addresses:
            raise InvalidArgumentError(
                "tandem.torch.Optimizer: no parameter servers are given [TD3003]",
                "tandemrun --servers=2 --workers=2 train.py, or servers=[...]",
            )
        self.trainers = rank.size if trainers is None else trainers
        self._client = _core.PsClient(
            servers=addresses,
            job=os.environ.get("TANDEM_JOB", "job") if job is None else job,
            trainer=rank.rank if trainer is None else trainer,
            trainers=self.trainers,
            secret=_secret() if secret is None else secret,
            tls=_tls_files(os.environ.get("TANDEM_TLS_DIR") if tls is None else tls),
            insecure_allow_network=(
                os.environ.get("TANDEM_INSECURE_ALLOW_NETWORK") == "1"
                if insecure_allow_network is None
                else insecure_allow_network
            ),
            start_timeout=start_timeout,
            step_timeout=step_timeout,
            row_cache_bytes=int(row_cache_mb * 2**20),
            row_cache_versions=row_cache_versions,
        )
        self._client.configure(
            {name: array.shape for name, array in self._arrays.items()},
            kind,
            dict(attrs or {}),
            mode,
            [
                (n, t.num_embeddings, t.embedding_dim, t.init, t.a, t.b, seed, t.rules)
                for n, t in self._tables.items()
            ],
        )
        sizes = {n: (t.num_embeddings, t.embedding_dim) for n, t in self._tables.items()}
        self._state = TableState(
            RowPulls(self._client, sizes, self._sync),
            self._sync,
            self._client.init_or_fetch(self._arrays),
        )
        for name, table in self._tables.items():
            table.connect(name, self._state)
        _warn_of_spinning(self._client.shm_servers)

    @property
    def version(self) -> int:
        """The number of steps (a_sync: of pushes) that the parameters of this process contain."""
        return self._state.version

    @staticmethod
    def _checked(model: Any) -> List[Tuple[str, Any]]:
        found = list(model.named_parameters())
        for name, p in found:
            if p.dtype != torch.float32 or p.device.type != "cpu" or not p.is_contiguous():
                raise InvalidArgumentError(
                    f'parameter "{name}" is {p.dtype} on {p.device}, expected contiguous '
                    "torch.float32 on the CPU [TD1206]"
                )
        return found

    def pull(self, table: str, ids: Any) -> Any:
        """Returns rows of a table as of this step: f32 [len(ids), dim]. ids: ascending."""
        given = numpy.ascontiguousarray(ids, numpy.int64)
        dim = self._tables[table].embedding_dim
        values = numpy.empty((given.size, dim), numpy.float32)
        version = self.version if self._sync else 0
        self._client.pull_rows(version, self._sync, [(table, given, values)]).wait()
        return values

    def prefetch(self, inputs: Mapping[str, Any]) -> None:
        """Announces the ids of the next forward calls: tensors by name of the table. All tables
        share one call to each server. See Table.prefetch."""
        for name, input in inputs.items():
            self._tables[name].prefetch(input)

    def zero_grad(self) -> None:
        """Forgets all gradients, and the rows that forward calls have pulled."""
        for p in self._params.values():
            p.grad = None
        for table in self._tables.values():
            table.forget_uses()
        if self._dense is not None:
            self._dense.zero_grad()

    def step(self, event_time: Optional[float] = None) -> None:
        """Pushes the gradients and receives the new parameters. Requests the rows of `prefetch`.

        Args:
            event_time: Unix time in seconds (as of time.time()) of the newest sample of the batch.
                Tables with the rules ttl_s or shrink_every_s need it. None: unknown.

        Raises:
            InvalidArgumentError: event_time is more than a day in the future.
            Error: a server refuses the gradients, or is lost for longer than step_timeout.
            KeyboardInterrupt: Ctrl-C while the call waits. The servers may have the push or not,
                and the parameters may change until `finish`.
        """
        event_time_ms = _event_time_ms(event_time)
        share = numpy.float32(self.trainers)
        grads = {}
        for name, p in self._params.items():
            grad = p.grad if p.grad is not None else torch.zeros_like(p)
            values = numpy.ascontiguousarray(grad.detach().numpy())
            grads[name] = values / share if self.trainers > 1 else values
        rows = []
        for name, table in self._tables.items():
            ids, values = table.take_gradient()
            if self.trainers > 1:
                values /= share
            rows.append((name, ids, values))
        call = self._client.push_pull(
            self.version,
            self.lr,
            grads,
            self._arrays,
            rows,
            event_time_ms=event_time_ms,
        )
        if self._sync:  # the servers reply after this step
            self._state.pulls.begin_step(self.version + 1)
        if self._dense is not None:
            self._dense.step()
        version = call.wait()
        if not self._sync:
            self._state.pulls.begin_step(0)
        self._state.version = version

    def rows(self, table: str) -> Tuple[Any, Any]:
        """Returns all rows of a table that have had a gradient: ids, ascending, and values.

        Args:
            table: the name of the module, such as "words".
        """
        ids, values = self._client.pull_table(table, self.version if self._sync else 0)
        return ids, values

    def save(self) -> int:
        """Makes the servers write a checkpoint to their data directories. Returns its version."""
        return int(self._client.save())

    def finish(self) -> None:
        """Tells the servers that this trainer sends no more gradients, and disconnects."""
        self._state.pulls.forget()
        self._client.complete()
        self._client.close()

    def counts(self) -> Dict[str, int]:
        """Returns counts since the start: servers that are called through shared memory, forward
        calls whose rows were requested ahead, and rows found and not found in the row cache."""
        hits, misses = self._client.cache_counts
        return {
            "shm_servers": self._client.shm_servers,
            "prefetched": self._state.pulls.ahead,
            "cache_hits": hits,
            "cache_misses": misses,
        }

    def state(self) -> Dict[str, Any]:
        """Returns the version, and the parameters outside the tables as arrays."""
        return {"version": self.version, **{n: a.copy() for n, a in self._arrays.items()}}


def _event_time_ms(event_time: Optional[float]) -> int:
    if event_time is None:
        return 0
    if not 0 <= event_time <= time.time() + 86400:  # it would count from then on
        raise InvalidArgumentError(
            f"event_time is {event_time:.3f}, expected seconds of Unix time up to a day from now "
            "[TD1104]",
            "pass seconds, as time.time() returns them",
        )
    return round(event_time * 1000)


def _secret() -> str:
    """Returns the secret of the job that tandemrun made."""
    path = os.environ.get("TANDEM_SECRET_FILE", "")
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _tls_files(given: Any) -> Optional[Tuple[str, str, str]]:
    """Returns the certificate, its key and the certificate of the authority."""
    if given is None:
        return None
    if isinstance(given, (str, os.PathLike)):
        return tuple(os.path.join(given, name) for name in ("tls.crt", "tls.key", "ca.crt"))
    cert, key, ca = given
    return str(cert), str(key), str(ca)


def _warn_of_spinning(local_servers: int) -> None:
    """Warns if threads of torch wait in a busy loop while servers on this host need a processor."""
    policy = os.environ.get("OMP_WAIT_POLICY", "").strip().lower()
    spins = policy != "passive" and os.environ.get("GOMP_SPINCOUNT") != "0"
    if spins and local_servers and torch.get_num_threads() > 1:
        warnings.warn(
            f"{torch.get_num_threads()} OpenMP threads of torch wait in a busy loop, which slows "
            f"{local_servers} pservers on this host [TD4027]; hint: start Python with "
            "OMP_WAIT_POLICY=passive",
            RuntimeWarning,
            stacklevel=3,  # the caller of Optimizer
        )
