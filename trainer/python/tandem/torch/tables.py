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

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

from ..errors import FailedPreconditionError, InvalidArgumentError
from .table_grads import Bags, begins_of
from .table_rows import RowPulls, Rows, sum_of_uses

__all__ = ["Embedding", "EmbeddingBag", "Table", "TableState"]


class _Use(NamedTuple):
    """Rows that one forward call has pulled."""

    ids: Any  # numpy array, ascending
    rows: Any  # tensor [len(ids), dim] with a gradient after backward


class TableState:
    """What the tables of a model share with their optimizer."""

    def __init__(self, pulls: RowPulls, sync: bool, version: int) -> None:
        self.pulls = pulls
        self.sync = sync
        self.version = version  # sync: the number of complete steps

    def take(self, table: str, input: Any) -> Rows:
        """Returns the rows of a forward call, as RowPulls.take does."""
        return self.pulls.take(table, input, self.version if self.sync else 0)


class Table(torch.nn.Module):
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
        self._state: Optional[TableState] = None
        self._name = ""
        self._uses: List[_Use] = []

    def connect(self, name: str, state: TableState) -> None:
        """Makes the table usable. `Optimizer` calls it. name: the name of the module."""
        self._name, self._state = name, state

    def prefetch(self, input: Any) -> None:
        """Announces the ids of a later forward call, whose rows are then pulled ahead.

        `Optimizer.step` requests the rows of all tables in one call to each server. In sync mode
        they are the rows after this step, so no value differs from those without `prefetch`. In a_sync
        mode they are the rows after this trainer's push; pushes of other trainers that arrive
        between the pull and the forward call are missing. A forward call with other ids pulls its
        rows itself.

        Args:
            input: the tensor that the forward call will get; it must not change until then.

        Raises:
            FailedPreconditionError: the table has no optimizer yet.
            OutOfRangeError: an id is not in the table.
        """
        self._connected().pulls.announce(self._name, input)

    def take_gradient(self) -> Tuple[Any, Any]:
        """Returns ids, ascending, i64 [rows], and the sum of their gradients since the last call, f32
        [rows, embedding_dim]. The caller may change the arrays."""
        uses = [(use.ids, use.rows.grad.numpy()) for use in self._uses if use.rows.grad is not None]
        self._uses = []
        return sum_of_uses(uses, self.embedding_dim, self.padding_idx)

    def forget_uses(self) -> None:
        """Forgets the forward calls since the last step."""
        self._uses = []

    def _connected(self) -> TableState:
        if self._state is None:
            raise FailedPreconditionError(
                "the table is used before tandem.torch.Optimizer(model, ...) [TD1219]",
                "make the optimizer before the first forward call",
            )
        return self._state

    def _pull(self, input: Any) -> Tuple[Any, Any, Optional[int]]:
        """Returns the rows of the ids, the ids as positions in these rows, and the position of the
        padding."""
        index, values = self._connected().take(self._name, input)
        rows = torch.from_numpy(values)
        padding = None
        if self.padding_idx is not None:
            at = int(index.ids.searchsorted(self.padding_idx))
            if at < index.ids.size and index.ids[at] == self.padding_idx:
                padding = at
                rows[padding] = 0
        if torch.is_grad_enabled() and self.training:
            rows.requires_grad_()
            self._uses.append(_Use(index.ids, rows))
        return rows, torch.from_numpy(index.places.reshape(input.shape)), padding

    def extra_repr(self) -> str:
        """The text in the representation of the module."""
        return f"{self.num_embeddings}, {self.embedding_dim}, on parameter servers"


class EmbeddingBag(Table):
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
        if self.mode != "max" and per_sample_weights is None and input.dim() == (offsets is None) + 1:
            begins = begins_of(positions, offsets, self.include_last_offset)
            left_out = -1 if padding is None else padding
            return Bags.apply(rows, positions.view(-1), begins, self.mode, left_out)
        return F.embedding_bag(
            positions,
            rows,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=padding,
        )


class Embedding(Table):
    """torch.nn.Embedding whose rows are on parameter servers. Arguments: see EmbeddingBag."""

    def forward(self, input: Any) -> Any:
        """Returns the rows of the ids, f32 [*input.shape, embedding_dim]."""
        rows, positions, padding = self._pull(input)
        flat = positions.view(-1)
        begins = torch.arange(flat.numel() + 1)  # a bag for each id
        sums = Bags.apply(rows, flat, begins, "sum", -1 if padding is None else padding)
        return sums.view(*input.shape, self.embedding_dim)
