"""The tensors of `tandem.torch.process_group`: their memory, checks, reductions and copies."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

import torch
import torch.distributed as dist

from ..errors import InvalidArgumentError, UnimplementedError

# The element types that the communicator reduces. Other types are gathered and reduced by PyTorch.
REDUCED = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int32: "i32",
    torch.int64: "i64",
}

Binary = Callable[[Any, Any], Any]


def _reductions() -> List[Tuple[Any, str, Binary]]:
    """Returns (operation of PyTorch, name in the communicator or "", function of two tensors)."""
    op = dist.ReduceOp
    return [
        (op.SUM, "sum", torch.add),
        (op.AVG, "sum", torch.add),
        (op.MAX, "max", torch.maximum),
        (op.MIN, "min", torch.minimum),
        (op.PRODUCT, "prod", torch.mul),
        (op.BAND, "", torch.bitwise_and),
        (op.BOR, "", torch.bitwise_or),
        (op.BXOR, "", torch.bitwise_xor),
    ]


def reduction(op: Any) -> Tuple[str, Binary, bool]:
    """Returns the name, the function and whether the result is divided by the number of ranks."""
    for known, name, function in _reductions():
        if op == known:
            return name, function, op == dist.ReduceOp.AVG
    raise UnimplementedError(f"the backend tandem has no reduction {op} [TD1109]")


def reduce_as_tree(parts: List[Any], function: Binary) -> Any:
    """Reduces the parts of the ranks: first neighbours, then pairs of neighbours, and so on."""
    while len(parts) > 1:
        pairs = [function(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def bytes_of(tensor: Any) -> Any:
    """Returns the memory of a contiguous tensor as a numpy array of bytes, without a copy."""
    return tensor.detach().view(-1).view(torch.uint8).numpy()


def check(tensor: Any) -> Any:
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise UnimplementedError(
            f"the backend tandem has no collectives of tensors with layout {tensor.layout} on "
            f"device {tensor.device} [TD1109]; hint: use dense CPU tensors"
        )
    return tensor


def only(tensors: Sequence[Any]) -> Any:
    if len(tensors) != 1:
        raise InvalidArgumentError(f"a call has {len(tensors)} tensors of this rank, expected 1")
    return check(tensors[0])


def nothing() -> None:
    pass


def copy_to(result: Any, target: Any, divisor: int = 1) -> Callable[[], None]:
    """Returns a function that copies `result`, divided by `divisor`, to the tensor `target`."""

    def copy() -> None:
        value = result
        if divisor != 1:
            value = value / divisor if value.is_floating_point() else value // divisor
        if value.data_ptr() != target.data_ptr():
            target.detach().copy_(value.view(target.shape))

    return copy


def operation(opts: Any) -> Any:
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def check_parts(whole: Any, part: Any, size: int, what: str) -> None:
    """Checks that `whole` has the elements of `size` tensors like `part`."""
    check(whole)
    check(part)
    if whole.numel() != size * part.numel() or whole.dtype != part.dtype:
        raise InvalidArgumentError(
            f"{what}: a tensor {whole.dtype}{list(whole.shape)} for all {size} ranks and a tensor "
            f"{part.dtype}{list(part.shape)} for one rank, expected {size * part.numel()} elements "
            f"of {part.dtype}"
        )


def check_all(tensors: Sequence[Any], like: Any, size: int, what: str) -> None:
    """Checks a list that has a tensor for each rank, all of the size and type of `like`."""
    check(like)
    if len(tensors) != size:
        raise InvalidArgumentError(
            f"{what}: a list has {len(tensors)} tensors, expected one for each of the {size} ranks"
        )
    for peer, tensor in enumerate(tensors):
        check(tensor)
        if tensor.numel() != like.numel() or tensor.dtype != like.dtype:
            raise InvalidArgumentError(
                f"{what}: tensor {peer} is {tensor.dtype}{list(tensor.shape)}, expected "
                f"{like.dtype}{list(like.shape)}"
            )


def split(tensor: Any, sizes: Sequence[int], ranks: int) -> List[Any]:
    """Splits a tensor along its first dimension; no sizes: into equal parts."""
    rows = tensor.shape[0] if tensor.dim() else 0
    sizes = list(sizes) or [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows:
        raise InvalidArgumentError(
            f"alltoall: the sizes {sizes} do not split {rows} rows among {ranks} ranks"
        )
    return list(torch.split(tensor.detach(), sizes))
