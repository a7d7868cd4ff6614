"""Makes a function of each row of the operator table. `tandem.ops` has the functions."""

from __future__ import annotations

import inspect
import keyword
import textwrap
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _core
from .errors import InvalidArgumentError
from .program import Variable, default_main_program

# Argument names that every function has. An attribute with such a name gets an underscore.
_OWN = ("outputs", "run_if")

Result = Union[Variable, Tuple[Variable, ...]]


def argument_name(slot: str) -> str:
    """Returns the argument of a slot or attribute: "X@GRAD" is X_GRAD, "from" is from_."""
    name = slot.replace("@", "_")
    return name + "_" if keyword.iskeyword(name) or name in _OWN else name


def _signature(definition: _core.OpDefinition) -> inspect.Signature:
    kinds = inspect.Parameter
    rows: List[inspect.Parameter] = []
    optional = False
    for slot in definition.inputs:
        optional = optional or slot.optional
        default: Any = None if optional else kinds.empty
        rows.append(
            kinds(argument_name(slot.name), kinds.POSITIONAL_OR_KEYWORD, default=default)
        )
    for attr in definition.attrs:
        default = kinds.empty if attr.required else attr.default
        rows.append(kinds(argument_name(attr.name), kinds.KEYWORD_ONLY, default=default))
    for name in _OWN:
        rows.append(kinds(name, kinds.KEYWORD_ONLY, default=None))
    return inspect.Signature(rows)


def _doc(definition: _core.OpDefinition) -> str:
    lines = [definition.doc, "", "Args:"]
    for slot in definition.inputs:
        form = "list of variables" if slot.many else "variable"
        lines.append(f"    {argument_name(slot.name)}: {form}{', optional' * slot.optional}.")
    for attr in definition.attrs:
        default = "required" if attr.required else f"default {attr.default!r}"
        lines.append(f"    {argument_name(attr.name)}: {attr.doc} ({default}).")
    outputs = ", ".join(slot.name for slot in definition.outputs)
    lines += ["", f"Returns: {outputs}."]
    lines += ["", "Raises:", "    InvalidArgumentError: shapes, types or attributes do not fit."]
    return "\n".join(lines)


def _slot(value: Any) -> Sequence[Variable]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _names(outputs: Optional[Mapping[str, Any]]) -> Dict[str, List[str]]:
    named: Dict[str, List[str]] = {}
    for slot, value in (outputs or {}).items():
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        named[slot] = [v.name if isinstance(v, Variable) else v for v in values]
    return named


def _make(definition: _core.OpDefinition) -> Callable[..., Result]:
    signature = _signature(definition)
    slots = [(slot.name, argument_name(slot.name)) for slot in definition.inputs]
    attrs = [(attr.name, argument_name(attr.name)) for attr in definition.attrs]
    single = len(definition.outputs) == 1 and not definition.outputs[0].many

    def function(*args: Any, **kwargs: Any) -> Result:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as wrong:
            raise InvalidArgumentError(f"{definition.type}: {wrong} [TD1206]") from None
        made = default_main_program().append(
            definition.type,
            {slot: _slot(given[arg]) for slot, arg in slots if given.get(arg) is not None},
            {name: given[arg] for name, arg in attrs if arg in given},
            _names(given.get("outputs")),
            run_if=given.get("run_if"),
        )
        return made[0] if single else tuple(made)

    function.__name__ = function.__qualname__ = definition.type
    function.__module__ = "tandem.ops"
    function.__doc__ = _doc(definition)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


FUNCTIONS: Dict[str, Callable[..., Result]] = {
    row.type: _make(row) for row in _core.op_table() if not row.has_body
}


_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


def _type_of(attr: _core.AttrDefinition) -> str:
    value = attr.default
    if isinstance(value, list):
        floats = any(isinstance(item, float) for item in value)
        return "Sequence[float]" if floats or not value else "Sequence[int]"
    return _TYPES.get(type(value), "Any")


def _stub_of(definition: _core.OpDefinition) -> str:
    arguments, optional = [], False
    for slot in definition.inputs:
        kind = "Sequence[Variable]" if slot.many else "Variable"
        optional = optional or slot.optional
        form = f"Optional[{kind}] = ..." if optional else kind
        arguments.append(f"{argument_name(slot.name)}: {form}")
    arguments.append("*")
    for attr in definition.attrs:
        default = "" if attr.required else " = ..."
        arguments.append(f"{argument_name(attr.name)}: {_type_of(attr)}{default}")
    arguments += ["outputs: Outputs = ...", "run_if: Optional[Variable] = ..."]
    slots = definition.outputs
    if any(slot.many for slot in slots):
        result = "Tuple[Variable, ...]"
    else:
        result = f"Tuple[{', '.join(['Variable'] * len(slots))}]" if len(slots) > 1 else "Variable"
    body = textwrap.fill(
        ", ".join(arguments), 96, initial_indent="    ", subsequent_indent="    "
    )
    return f"def {definition.type}(\n{body}\n) -> {result}: ..."


def stub() -> str:
    """Returns the content of ops.pyi, the types of the functions of `tandem.ops`."""
    head = [
        "# Written by tests/python/tandem_types_test.py from the operator table; do not edit.",
        "from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union",
        "",
        "from .program import Variable",
        "",
        "Name = Union[str, Variable]",
        "Outputs = Optional[Mapping[str, Union[Name, Sequence[Name]]]]",
        "__all__: List[str]",
        "",
    ]
    rows = [_stub_of(row) for row in _core.op_table() if row.type in FUNCTIONS]
    return "\n".join([*head, *rows]) + "\n"
