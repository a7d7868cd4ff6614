"""Sums of rows whose gradients are computed for the distinct rows of a batch only."""

from __future__ import annotations

from typing import Any, Tuple

import numpy
import torch
import torch.nn.functional as F

from .. import _core


class Bags(torch.autograd.Function):
    """F.embedding_bag of modes sum and mean without weights. Its gradient takes time linear in the
    number of ids, where torch's sorts them."""

    @staticmethod
    def forward(ctx: Any, rows: Any, places: Any, begins: Any, mode: str, padding: int) -> Any:
        """Returns f32 [bags, dim].

        Args:
            rows: f32 [rows, dim].
            places: i64 [n], a row for each id.
            begins: i64 [bags + 1], the position of the first id of each bag, and n.
            mode: "sum" or "mean".
            padding: a row that is left out; -1: none.
        """
        ctx.arrays, ctx.shape = (places.numpy(), begins.numpy()), rows.shape
        ctx.mode, ctx.padding = mode, padding
        return F.embedding_bag(
            places,
            rows,
            begins,
            mode=mode,
            include_last_offset=True,
            padding_idx=None if padding < 0 else padding,
        )

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Tuple[Any, None, None, None, None]:
        """Returns the gradient of the rows."""
        sums = numpy.empty(tuple(ctx.shape), numpy.float32)
        grads = numpy.ascontiguousarray(grad.numpy())
        _core.add_bags(*ctx.arrays, grads, sums, ctx.shape[1], ctx.padding, ctx.mode == "mean")
        return torch.from_numpy(sums), None, None, None, None


def begins_of(places: Any, offsets: Any, include_last_offset: bool) -> Any:
    """Returns the position of the first id of each bag, and the number of ids: i64 [bags + 1]."""
    if offsets is None:
        bags, ids = places.shape
        return torch.arange(bags + 1) * ids
    if include_last_offset:
        # A copy, because backward reads it after the caller may have changed the offsets.
        return offsets.to(torch.int64, copy=True, memory_format=torch.contiguous_format)
    return torch.cat([offsets.long(), torch.tensor([places.numel()])])
