"""PyTorch models whose tables, and if wanted all parameters, are on parameter servers.

    import torch, tandem.torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = tandem.torch.EmbeddingBag(10_000_000, 16, mode="sum")
            self.out = torch.nn.Linear(16, 1)
        def forward(self, ids, offsets):
            return self.out(self.words(ids, offsets))
    model = Net()
    optimizer = tandem.torch.Optimizer(model, "adagrad", lr=0.05)
    for ids, offsets, label in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(ids, offsets), label)
        loss.backward()
        optimizer.step()
    optimizer.finish()

`tandemrun --servers=2 --workers=2 train.py` starts servers and trainers. A table has the rows that
have had a gradient, so it may be larger than the memory of a trainer. The gradients are those of
the mean over all trainers. A push counts once, also if a server or its connection fails meanwhile.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy
import tandem_pserver
import torch
import torch.nn.functional as F

from .. import _core
from ..errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["Embedding", "EmbeddingBag", "Optimizer"]


class _Use(NamedTuple):
    """Rows that one forward call has pulled."""

    ids: Any  # numpy array, ascending
    rows: Any  # tensor [len(ids), dim] with a gradient after backward


class _Table(torch.nn.Module):
    """A table on parameter servers. `Optimizer` connects it."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: Optional[int] = None,
        init: str = "normal",
        a: float = 0.0,
        b: float = 1.0,
        rules: str = "",
    ) -> None:
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1:
            raise InvalidArgumentError(
                f"a table of {num_embeddings} rows of {embedding_dim} values: expected at least 1 "
                "[TD1104]"
            )
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None and padding_idx < 0:
            padding_idx += num_embeddings
        self.padding_idx = padding_idx
        self.init, self.a, self.b, self.rules = init, a, b, rules
        self._optimizer: Optional[Optimizer] = None
        self._name = ""
        self._uses: List[_Use] = []

    def _pull(self, input: Any) -> Tuple[Any, Any, Optional[int]]:
        """Returns the rows of the ids, the ids as positions in these rows, and the position of the
        padding."""
        optimizer = self._optimizer
        if optimizer is None:
            raise FailedPreconditionError(
                "the table is used before tandem.torch.Optimizer(model, ...) [TD1219]",
                "make the optimizer before the first forward call",
            )
        ids, positions = numpy.unique(input.detach().cpu().numpy(), return_inverse=True)
        rows = torch.from_numpy(optimizer.pull(self._name, ids))
        padding = None
        if self.padding_idx is not None:
            found = numpy.nonzero(ids == self.padding_idx)[0]
            if found.size:
                padding = int(found[0])
                rows[padding] = 0
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            self._uses.append(_Use(ids, rows))
        return rows, torch.from_numpy(positions.reshape(input.shape)), padding

    def _gradient(self) -> Tuple[Any, Any]:
        """Returns ids, ascending, and the sum of their gradients. Forgets the forward calls."""
        uses = [use for use in self._uses if use.rows.grad is not None]
        self._uses = []
        if not uses:
            return numpy.empty(0, numpy.int64), numpy.empty((0, self.embedding_dim), numpy.float32)
        ids = numpy.concatenate([use.ids for use in uses])
        grads = numpy.concatenate([use.rows.grad.numpy() for use in uses])
        if len(uses) > 1:
            ids, where = numpy.unique(ids, return_inverse=True)
            total = numpy.zeros((ids.size, self.embedding_dim), numpy.float32)
            numpy.add.at(total, where, grads)
            grads = total
        if self.padding_idx is not None:
            kept = ids != self.padding_idx
            ids, grads = ids[kept], grads[kept]
        return ids, grads

    def extra_repr(self) -> str:
        """The text in the representation of the module."""
        return f"{self.num_embeddings}, {self.embedding_dim}, on parameter servers"


class EmbeddingBag(_Table):
    """torch.nn.EmbeddingBag whose rows are on parameter servers.

    Args:
        num_embeddings, embedding_dim, mode, padding_idx, include_last_offset: as there.
        init, a, b: the values of a row before its first gradient: "normal" with mean a and
            deviation b, "uniform" in [a, b), "constant" a, or "xavier_uniform".
        rules: rules of admission and removal, as `table_rules` of a job has them.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        padding_idx: Optional[int] = None,
        include_last_offset: bool = False,
        init: str = "normal",
        a: float = 0.0,
        b: float = 1.0,
        rules: str = "",
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, init, a, b, rules)
        if mode not in ("sum", "mean", "max"):
            raise InvalidArgumentError(f'mode is "{mode}", expected sum, mean or max [TD1006]')
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Any, offsets: Optional[Any] = None, per_sample_weights: Optional[Any] = None
    ) -> Any:
        """Returns a row for each bag, f32 [bags, embedding_dim].

        Args:
            input: ids, i64 [n] with offsets, or [bags, n].
            offsets: the position of the first id of each bag.
            per_sample_weights: f32 of the shape of input, for mode "sum".
        """
        rows, positions, padding = self._pull(input)
        return F.embedding_bag(
            positions,
            rows,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=padding,
        )


class Embedding(_Table):
    """torch.nn.Embedding whose rows are on parameter servers. Arguments: see EmbeddingBag."""

    def forward(self, input: Any) -> Any:
        """Returns the rows of the ids, f32 [*input.shape, embedding_dim]."""
        rows, positions, padding = self._pull(input)
        return F.embedding(positions, rows, padding_idx=padding)


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
        tls: see tandem_pserver.Client.
        insecure_allow_network: see tandem_pserver.Client; None: from the environment.

    Raises:
        InvalidArgumentError: there are no servers, or a parameter is not f32 on the CPU.
        tandem_pserver.PserverError: a server refuses the job.
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
    ) -> None:
        self.lr = lr
        self._dense = dense
        self._sync = mode == "sync"
        self._tables = {n: m for n, m in model.named_modules() if isinstance(m, _Table)}
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
        self._client = tandem_pserver.Client(
            addresses,
            job=os.environ.get("TANDEM_JOB", "job") if job is None else job,
            trainer=rank.rank if trainer is None else trainer,
            trainers=self.trainers,
            secret=_secret() if secret is None else secret,
            tls=os.environ.get("TANDEM_TLS_DIR") if tls is None else tls,
            insecure_allow_network=(
                os.environ.get("TANDEM_INSECURE_ALLOW_NETWORK") == "1"
                if insecure_allow_network is None
                else insecure_allow_network
            ),
        )
        tables = {}
        for name, table in self._tables.items():
            table._optimizer, table._name = self, name
            tables[name] = tandem_pserver.Table(
                table.num_embeddings,
                table.embedding_dim,
                table.init,
                table.a,
                table.b,
                seed,
                table.rules,
            )
        self._client.configure(
            {name: array.shape for name, array in self._arrays.items()},
            kind,
            dict(attrs or {}),
            mode,
            tables,
        )
        self.version = self._client.init_or_fetch(self._arrays)

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
        return self._client.pull_rows(table, ids, self.version if self._sync else 0)

    def zero_grad(self) -> None:
        """Forgets all gradients, and the rows that forward calls have pulled."""
        for p in self._params.values():
            p.grad = None
        for table in self._tables.values():
            table._uses = []
        if self._dense is not None:
            self._dense.zero_grad()

    def step(self) -> None:
        """Pushes the gradients and receives the new parameters.

        Raises:
            tandem_pserver.PserverError: a server refuses the gradients, or is lost for longer than
                its timeout.
        """
        if self._dense is not None:
            self._dense.step()
        share = numpy.float32(self.trainers)
        grads = {}
        for name, p in self._params.items():
            grad = p.grad if p.grad is not None else torch.zeros_like(p)
            grads[name] = grad.detach().numpy() / share
        rows = {}
        for name, table in self._tables.items():
            ids, values = table._gradient()
            rows[name] = (ids, values / share)
        self.version = self._client.push_pull(self.version, self.lr, grads, self._arrays, rows)

    def rows(self, table: str) -> Tuple[Any, Any]:
        """Returns all rows of a table that have had a gradient: ids, ascending, and values.

        Args:
            table: the name of the module, such as "words".
        """
        ids, values = self._client.pull_table(table)
        return ids, values

    def save(self) -> int:
        """Makes the servers write a checkpoint to their data directories. Returns its version."""
        return int(self._client.save())

    def finish(self) -> None:
        """Tells the servers that this trainer sends no more gradients, and disconnects."""
        self._client.complete()
        self._client.close()

    def state(self) -> Dict[str, Any]:
        """Returns the version, and the parameters outside the tables as arrays."""
        return {"version": self.version, **{n: a.copy() for n, a in self._arrays.items()}}


def _secret() -> str:
    """Returns the secret of the job that tandemrun made."""
    path = os.environ.get("TANDEM_SECRET_FILE", "")
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
