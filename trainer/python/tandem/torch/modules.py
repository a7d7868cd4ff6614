"""Modules of PyTorch as programs: `from_torch`, through PyTorch's ONNX exporter.

The exporter changes names and layouts: it splits, joins, transposes and permutes parameters. To know
which element of the module each element of the program comes from, `from_torch` exports the module
with numbers in place of its values: once element k of all parameters is k + 1, and once the numbers
descend. A variable that is equal in both programs is a constant. A variable of frozen parameters
(`requires_grad` is False) becomes a state: no optimizer changes it, but `state_dict` and
`load_state_dict` have it.

The exporter computes what depends on parameters alone. Where it thereby copies a parameter, as for an
embedding whose table is also the output layer, the module is exported again without this.

At the end the program and the module compute the output of the example, both in the state of
`eval()`. A program with another output is refused."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import numpy
import torch

from .. import onnx
from ..errors import InvalidArgumentError, NotFoundError, UnimplementedError
from ..program import Program, StartupProgram, Variable
from ..scope import Array, Scope, global_scope
from .module_export import ModuleExport, Untrained

__all__ = ["Converted", "from_torch"]

# Floats of 32 bits have all integers up to _EXACT. Numbers of larger modules have two digits in base
# _PART.
_EXACT = 1 << 24
_PART = 1_000_003


class _Source(NamedTuple):
    """Where the values of a variable come from: positions in the numbered elements of the module."""

    variable: str
    positions: Any  # i64 array of the shape of the variable


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
        aliases: Dict[str, str],
        metadata: Any,
    ) -> None:
        self.program = program
        self.inputs = inputs
        self.output = output
        self.notes = notes
        self._values = values
        self._sources = sources
        self._names = names
        self._left = left
        self._metadata = metadata
        self._aliases = aliases

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
        state = OrderedDict((name, value.clone()) for name, value in self._left.items())
        # Some modules read the versions of their parts when they load a state.
        state._metadata = self._metadata  # type: ignore[attr-defined]
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
        for name, first in self._aliases.items():
            state[name] = state[first].clone()
        return state

    def load_state_dict(self, state: Mapping[str, Any], scope: Optional[Scope] = None) -> None:
        """Sets the values of a `state_dict` of the module in the scope. The slots of the optimizer keep
        their values.

        Raises:
            NotFoundError: the state lacks an entry of the module.
            InvalidArgumentError: an entry has another shape than in the module.
        """
        lacks = [name for name in self._names if name not in state]
        if lacks:
            raise NotFoundError(
                f'the state lacks "{lacks[0]}", an entry of the module [TD1104]',
                "give a state_dict of the module that was converted",
            )
        for name in self._names:
            if state[name].shape != self._left[name].shape:
                raise InvalidArgumentError(
                    f'"{name}" has the shape {tuple(state[name].shape)}, expected '
                    f"{tuple(self._left[name].shape)} [TD1104]"
                )
        found = global_scope() if scope is None else scope
        if not self._names:
            return
        flat = _flat({name: state[name].detach().cpu() for name in self._names}, self._names)
        for source in self._sources:
            found.set(source.variable, flat[source.positions].astype(numpy.float32))


def _flat(state: Dict[str, Any], names: List[str]) -> Any:
    """Returns the elements of the entries `names`, in this order, as one numpy array."""
    return numpy.concatenate([state[name].numpy().reshape(-1) for name in names])


@contextlib.contextmanager
def _numbered(module: Any, numbers: Any) -> Iterator[None]:
    """Gives the entries of the module the values `numbers`, in their order, for the duration of a
    `with` block."""
    state, _ = _entries(module)
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


def _entries(module: Any) -> Tuple[List[Tuple[str, Any]], Dict[str, str]]:
    """Returns the entries of the state that a training changes: the parameters, and the running
    statistics. Each tensor is there once. Its other names are in the second result."""
    statistics = {
        id(value)
        for part in module.modules()
        for name, value in part.named_buffers(recurse=False)
        if name in ("running_mean", "running_var")
    }
    entries: List[Tuple[str, Any]] = []
    aliases: Dict[str, str] = {}
    first: Dict[int, str] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if not isinstance(value, torch.nn.Parameter) and id(value) not in statistics:
            continue
        if id(value) in first:
            aliases[name] = first[id(value)]
            continue
        first[id(value)] = name
        entries.append((name, value.detach()))
    return entries, aliases


@contextlib.contextmanager
def _thawed(module: Any) -> Iterator[Set[str]]:
    """Makes all parameters of the module trained ones for the duration of a `with` block: layers of
    frozen parameters have forms in `eval()` that the exporter lacks. Returns the names of the frozen
    parameters, as `state_dict` has them."""
    state = module.state_dict(keep_vars=True).items()
    frozen = {name: value for name, value in state
              if isinstance(value, torch.nn.Parameter) and not value.requires_grad}
    try:
        for value in frozen.values():
            value.requires_grad_(True)
        yield set(frozen)
    finally:
        for value in frozen.values():
            value.requires_grad_(False)


def _constants(module: Any, entries: List[Tuple[str, Any]]) -> Set[str]:
    """Returns the exporter's names of the buffers that a training does not change."""
    changed = {name for name, _ in entries}
    return {"module." + name for name, _ in module.named_buffers() if name not in changed}


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
        UnimplementedError: the module uses an operator that Tandem has not, or the exporter splits or
            computes a parameter that another operator also reads, or the output of the program
            differs from that of the module.
    """
    inputs = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    several = [f"x_{k}" for k in range(len(inputs))]
    names = list(input_names or (["x"] if len(inputs) == 1 else several))
    if len(names) != len(inputs):
        raise InvalidArgumentError(
            f"{len(names)} names for {len(inputs)} inputs, expected one each [TD1104]"
        )
    left = {name: value.detach().clone() for name, value in module.state_dict().items()}
    entries, aliases = _entries(module)
    for name, value in entries:
        if value.dtype != torch.float32 or value.device.type != "cpu":
            raise InvalidArgumentError(
                f'"{name}" of the module is {value.dtype} on {value.device}, expected torch.float32 '
                "on cpu [TD1104]",
                "call module.float().cpu()",
            )

    scalars = {"module." + name for name, value in entries if value.dim() == 0}
    export = ModuleExport(module, inputs, names, opset, loss, scalars)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with _thawed(module) as frozen:
            imported, values, sources = _convert(module, export, left, entries, frozen)
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
        aliases,
        getattr(module.state_dict(), "_metadata", None),
    )


class _Reading(NamedTuple):
    """A module that was read.

    Attributes:
        values: the arrays of the variables.
        sources: where the values come from, without those of constants.
        fixed: the variables that the program trains although the module does not.
        refusal: None, or why the values cannot be given back.
    """

    imported: onnx.Imported
    values: Dict[str, Array]
    sources: List[_Source]
    fixed: Untrained
    refusal: Optional[UnimplementedError]


def _read_numbers(
    export: ModuleExport, folded: bool, untrained: Untrained, module: Any, numbers: Any
) -> Tuple[onnx.Imported, Dict[str, Any]]:
    """Exports the module with `numbers` as its values. Returns the program, and the numbers of each
    of its variables; a number that is not whole is -1."""
    part = _EXACT if int(numbers.max()) < _EXACT else _PART
    digits = [numbers % part, torch.div(numbers, part, rounding_mode="floor") + 1]
    totals: Dict[str, Any] = {}
    for k, digit in enumerate(digits if part == _PART else digits[:1]):
        with _numbered(module, digit):
            imported = export.read(folded, untrained)
        for name, value in imported.values.items():
            whole = numpy.where(value == numpy.round(value), value, -1).astype(numpy.int64)
            totals[name] = whole if k == 0 else totals[name] + (whole - 1) * part
    return imported, totals


def _convert(
    module: Any,
    export: ModuleExport,
    left: Dict[str, Any],
    entries: List[Tuple[str, Any]],
    frozen: AbstractSet[str],
) -> Tuple[onnx.Imported, Dict[str, Array], List[_Source]]:
    """Returns the program, the values of its variables, and where they come from."""
    buffers = _constants(module, entries)
    wanted = export.output()
    refusal: Optional[UnimplementedError] = None
    for folded in (True, False):
        untrained = Untrained(set(buffers), set())
        while True:
            try:
                reading = _read(module, export, left, entries, frozen, folded, untrained)
            except UnimplementedError as error:
                if refusal is None:
                    raise
                raise refusal from error
            known = reading.fixed.constants <= untrained.constants
            if known and reading.fixed.frozen <= untrained.frozen:
                break
            untrained.constants.update(reading.fixed.constants)
            untrained.frozen.update(reading.fixed.frozen)
        again = reading.refusal
        if again is None:
            again = export.difference(wanted, untrained, reading.values)
        if again is None:
            return reading.imported, reading.values, reading.sources
        refusal = refusal or again
    assert refusal is not None
    raise refusal


def _read(
    module: Any,
    export: ModuleExport,
    left: Dict[str, Any],
    entries: List[Tuple[str, Any]],
    frozen: AbstractSet[str],
    folded: bool,
    untrained: Untrained,
) -> _Reading:
    total = sum(value.numel() for _, value in entries)
    if total == 0:
        imported = export.read(folded, untrained)
        return _Reading(imported, imported.values, [], Untrained(set(), set()), None)
    ascending = torch.arange(1, total + 1, dtype=torch.int64)
    imported, up = _read_numbers(export, folded, untrained, module, ascending)
    other, down = _read_numbers(export, folded, untrained, module, ascending.flip(0))
    flat = _flat(left, [name for name, _ in entries])
    values: Dict[str, Array] = {}
    held = numpy.concatenate([numpy.full(v.numel(), n in frozen) for n, v in entries])
    learning = {n for n, v in module.state_dict(keep_vars=True).items()
                if isinstance(v, torch.nn.Parameter) and n not in frozen}
    learns = numpy.concatenate([numpy.full(v.numel(), n in learning) for n, v in entries])
    sources, used = [], numpy.zeros(total, numpy.int64)
    fixed = Untrained(set(), set())
    refusal: Optional[UnimplementedError] = None
    for name, value in imported.values.items():
        values[name] = value
        if numpy.array_equal(value, other.values[name]):
            if imported.program.var(name).kind == "param":
                fixed.constants.add(name)
            continue
        positions = up[name] - 1
        inside = ((positions >= 0) & (positions < total)).all()
        if not inside or not numpy.array_equal(down[name], total - positions):
            refusal = refusal or UnimplementedError(
                f'the module computes "{name}" from its parameters [TD7015]',
                "remove the parametrisation, for example with torch.nn.utils.remove_weight_norm",
            )
            continue
        trained = imported.program.var(name).kind == "param"
        if trained and held[positions].all():
            fixed.frozen.add(name)
        elif trained and held[positions].any():
            entry = _entry_at(entries, int(positions[held[positions]][0]))
            refusal = refusal or UnimplementedError(
                f'the program joins {entry}, which is frozen, and a trained parameter in "{name}" '
                "[TD7015]",
                "freeze both, or none of them",
            )
        elif not trained and learns[positions].any():
            entry = _entry_at(entries, int(positions[learns[positions]][0]))
            refusal = refusal or UnimplementedError(
                f'the program has {entry}, which is trained, as the constant "{name}" [TD7015]',
                "freeze the parameter",
            )
        numpy.add.at(used, positions, 1)
        values[name] = flat[positions]
        sources.append(_Source(name, positions))
    if refusal is None and (used > 1).any():
        refusal = UnimplementedError(
            f"the program has parameter {_entry_at(entries, int(used.argmax()))} more than once "
            "[TD7015]",
            "use a parameter of its own in each place",
        )
    return _Reading(imported, values, sources, fixed, refusal)


def _entry_at(entries: List[Tuple[str, Any]], position: int) -> str:
    for name, value in entries:
        if position < value.numel():
            return f'"{name}"'
        position -= value.numel()
    return "of no name"
