"""Modules of PyTorch as programs: `from_torch`, through PyTorch's ONNX exporter.

The exporter changes names and layouts: it splits, joins, transposes and permutes parameters. To know
which element of the module each element of the program comes from, `from_torch` exports the module
with numbers in place of its values: once element k of all parameters is k + 1, and once the numbers
descend. A variable that is equal in both programs is a constant."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
import torch

from .. import onnx
from ..errors import InvalidArgumentError, UnimplementedError
from ..program import Program, StartupProgram, Variable
from ..scope import Array, Scope, global_scope

__all__ = ["Converted", "from_torch"]

# Floats of 32 bits have all integers up to _EXACT. Numbers of larger modules have two digits in base
# _PART.
_EXACT = 1 << 24
_PART = 1_000_003


class _Source(NamedTuple):
    """Where the values of a variable come from: positions in the numbered elements of the module."""

    variable: str
    positions: Any  # i64 array of the shape of the variable


class _Whole(torch.nn.Module):  # type: ignore[misc]
    """A module whose parts are in the state of `eval()`, but which itself claims to train: the
    exporter then does not merge parameters of equal values."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module
        self.training = True

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class Converted:
    """A program of a PyTorch module.

    Attributes:
        program: the forward program. Add a loss and an optimizer under `program_guard(program)`.
        inputs: the data variables, in the order of the module's arguments.
        output: the module's output, or the logits if a loss was asked for.
        notes: what the conversion changed, for example the last softmax that it omitted.
    """

    def __init__(
        self,
        program: Program,
        inputs: List[Variable],
        output: Variable,
        notes: List[str],
        values: Dict[str, Array],
        sources: List[_Source],
        names: List[str],
        left: Dict[str, Any],
    ) -> None:
        self.program = program
        self.inputs = inputs
        self.output = output
        self.notes = notes
        self._values = values
        self._sources = sources
        self._names = names
        self._left = left

    def startup(self, random_seed: int = 1) -> StartupProgram:
        """Returns the startup program, which sets the values of the module and declares the slots of
        the optimizer. The seed is that of other parameters that were added to the program."""
        return StartupProgram(self.program, random_seed, self._values)

    def state_dict(self, scope: Optional[Scope] = None) -> Dict[str, Any]:
        """Returns the values of the scope as a `state_dict` of the module, for `load_state_dict`.

        Entries that the program does not have keep the values of the module.

        Raises:
            NotFoundError: the scope lacks a variable of the program.
        """
        found = global_scope() if scope is None else scope
        state = {name: value.clone() for name, value in self._left.items()}
        if not self._names:
            return state
        flat = _flat(state, self._names)
        for source in self._sources:
            flat[source.positions] = found.get(source.variable)
        begin = 0
        for name in self._names:
            end = begin + state[name].numel()
            value = torch.from_numpy(flat[begin:end].copy())
            state[name] = value.view(state[name].shape)
            begin = end
        return state


def _flat(state: Dict[str, Any], names: List[str]) -> Any:
    """Returns the elements of the entries `names`, in this order, as one numpy array."""
    return numpy.concatenate([state[name].numpy().reshape(-1) for name in names])


def _export(module: Any, example: Tuple[Any, ...], names: List[str], opset: int) -> bytes:
    """Returns the module, which is in the state of `eval()`, as an ONNX model. In the mode PRESERVE the
    exporter does not merge batch normalisation into convolutions."""
    file = io.BytesIO()
    more = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Whole(module),
            example,
            file,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=True,
            keep_initializers_as_inputs=False,
            input_names=names,
            output_names=["output"],
            dynamic_axes={name: {0: "batch"} for name in [*names, "output"]},
            opset_version=opset,
            **more,
        )
    return file.getvalue()


@contextlib.contextmanager
def _numbered(module: Any, numbers: Any) -> Iterator[None]:
    """Gives the floating-point entries of the module's state the values `numbers`, in their order,
    for the duration of a `with` block."""
    state = _entries(module)
    before = [value.clone() for _, value in state]
    begin = 0
    try:
        with torch.no_grad():
            for _, value in state:
                value.copy_(numbers[begin : begin + value.numel()].view(value.shape))
                begin += value.numel()
        yield
    finally:
        with torch.no_grad():
            for (_, value), old in zip(state, before):
                value.copy_(old)


def _entries(module: Any) -> List[Tuple[str, Any]]:
    return [(n, v.detach()) for n, v in module.state_dict().items() if v.is_floating_point()]


def from_torch(
    module: Any,
    example: Union[Any, Sequence[Any]],
    loss: str = "none",
    input_names: Optional[Sequence[str]] = None,
    scope: Optional[Scope] = None,
    opset: int = 14,
) -> Converted:
    """Converts a module to a program that trains, and sets its values in the scope.

    The program computes what the module computes after `train()`, except dropout, which it leaves
    out: batch normalisation uses the statistics of the batch. The batch may have any size.

    Args:
        module: a `torch.nn.Module` with f32 parameters on the CPU. It is not changed.
        example: a tensor, or one for each argument. The first dimension is the batch, best
            of at least two samples: an exporter may take a size of 1 for a constant.
        loss: as in `tandem.onnx.read`.
        input_names: the names of the data variables; None: x, or x_0, x_1, ...
        scope: None: the global scope.
        opset: the version of the ONNX operators that PyTorch writes.

    Raises:
        InvalidArgumentError: a parameter is not f32, or is on another device.
        UnimplementedError: the module uses an operator that Tandem has not, computes a parameter
            from others, or uses a parameter twice.
    """
    inputs = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    several = [f"x_{k}" for k in range(len(inputs))]
    names = list(input_names or (["x"] if len(inputs) == 1 else several))
    if len(names) != len(inputs):
        raise InvalidArgumentError(
            f"{len(names)} names for {len(inputs)} inputs, expected one each [TD1104]"
        )
    left = {name: value.detach().clone() for name, value in module.state_dict().items()}
    entries = _entries(module)
    for name, value in entries:
        if value.dtype != torch.float32 or value.device.type != "cpu":
            raise InvalidArgumentError(
                f'"{name}" of the module is {value.dtype} on {value.device}, expected torch.float32 '
                "on cpu [TD1104]",
                "call module.float().cpu()",
            )

    def export() -> onnx.Imported:
        model = _export(module, inputs, names, opset)
        return onnx.read(model, "the module", loss, rename={name: name for name in names})

    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        imported, values, sources = _convert(module, export, left, entries)
    finally:
        for part, training in modes:
            part.training = training
    found = global_scope() if scope is None else scope
    for name, value in values.items():
        found.set(name, value)
    program = imported.program
    return Converted(
        program,
        [program.var(name) for name in names],
        imported.output,
        imported.notes,
        values,
        sources,
        [name for name, _ in entries],
        left,
    )


def _read_numbers(
    export: Callable[[], onnx.Imported], module: Any, numbers: Any
) -> Tuple[onnx.Imported, Dict[str, Any]]:
    """Exports the module with `numbers` as its values. Returns the program, and the numbers of each
    of its variables; a number that is not whole is -1."""
    part = _EXACT if int(numbers.max()) < _EXACT else _PART
    digits = [numbers % part, torch.div(numbers, part, rounding_mode="floor") + 1]
    totals: Dict[str, Any] = {}
    for k, digit in enumerate(digits if part == _PART else digits[:1]):
        with _numbered(module, digit):
            imported = export()
        for name, value in imported.values.items():
            whole = numpy.where(value == numpy.round(value), value, -1).astype(numpy.int64)
            totals[name] = whole if k == 0 else totals[name] + (whole - 1) * part
    return imported, totals


def _convert(
    module: Any,
    export: Callable[[], onnx.Imported],
    left: Dict[str, Any],
    entries: List[Tuple[str, Any]],
) -> Tuple[onnx.Imported, Dict[str, Array], List[_Source]]:
    """Returns the program, the values of its variables, and where they come from."""
    total = sum(value.numel() for _, value in entries)
    if total == 0:
        imported = export()
        return imported, imported.values, []
    ascending = torch.arange(1, total + 1, dtype=torch.int64)
    imported, up = _read_numbers(export, module, ascending)
    other, down = _read_numbers(export, module, ascending.flip(0))
    flat = _flat(left, [name for name, _ in entries])
    values, sources, used = {}, [], numpy.zeros(total, numpy.int64)
    for name, value in imported.values.items():
        values[name] = value
        if numpy.array_equal(value, other.values[name]):
            continue  # a constant
        positions = up[name] - 1
        inside = ((positions >= 0) & (positions < total)).all()
        if not inside or not numpy.array_equal(down[name], total - positions):
            raise UnimplementedError(
                f'the module computes "{name}" from its parameters [TD7015]',
                "remove the parametrisation, for example with torch.nn.utils.remove_weight_norm",
            )
        numpy.add.at(used, positions, 1)
        values[name] = flat[positions]
        sources.append(_Source(name, positions))
    if (used > 1).any():
        raise UnimplementedError(
            f"the program has parameter {_entry_at(entries, int(used.argmax()))} more than once "
            "[TD7015]",
            "use a parameter of its own in each place",
        )
    return imported, values, sources


def _entry_at(entries: List[Tuple[str, Any]], position: int) -> str:
    for name, value in entries:
        if position < value.numel():
            return f'"{name}"'
        position -= value.numel()
    return "of no name"
