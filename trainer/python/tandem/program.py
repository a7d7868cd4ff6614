"""Programs: variables, and operators in order.

Layers and operators add to the *current* program. In a thread, `program_guard` sets it. In the
main thread, `default_main_program()` is the current program where no guard is open.
"""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import threading
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core
from .errors import FailedPreconditionError, InvalidArgumentError
from .initializer import Constant, Initializer
from .training import Training

__all__ = [
    "Program",
    "StartupProgram",
    "Variable",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "load_program",
    "op_device",
    "program_guard",
]

_HERE = os.path.dirname(os.path.abspath(__file__))


def _caller() -> str:
    """The place outside this package that called it: "train.py:12"."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class Variable:
    """A variable of a program. It has no value; `Executor.run` feeds and fetches values.

    Variables support +, -, * and / with variables, and *, + and - with a number.
    """

    __slots__ = ("program", "name")

    def __init__(self, program: "Program", name: str) -> None:
        self.program = program
        self.name = name

    @property
    def shape(self) -> Tuple[int, ...]:
        """The dimensions. The batch of a data variable is -1; that of a result is 1."""
        return tuple(self.program.core.shape(self.name))

    @property
    def dtype(self) -> str:
        """f32, f16, bf16, i32, i64 or u8."""
        return self.program.core.dtype(self.name)

    @property
    def kind(self) -> str:
        """data, param, state or temp (a value of one run)."""
        return self.program.core.kind(self.name)

    @property
    def grad_name(self) -> str:
        """The name of the gradient that `append_backward` computes."""
        return self.name + "@GRAD"

    def __repr__(self) -> str:
        dims = ",".join(str(dim) for dim in self.shape)
        return f"<tandem.Variable {self.name}: {self.kind} {self.dtype}[{dims}]>"

    def _with(self, kind: str, other: Union["Variable", float]) -> "Variable":
        if isinstance(other, Variable):
            return self.program.append(f"elementwise_{kind}", {"X": [self], "Y": [other]})[0]
        number = float(other)
        if kind in ("add", "sub"):
            bias = number if kind == "add" else -number
            return self.program.append("scale", {"X": [self]}, {"scale": 1.0, "bias": bias})[0]
        factor = number if kind == "mul" else 1.0 / number
        return self.program.append("scale", {"X": [self]}, {"scale": factor})[0]

    def __add__(self, other: Union["Variable", float]) -> "Variable":
        return self._with("add", other)

    def __sub__(self, other: Union["Variable", float]) -> "Variable":
        return self._with("sub", other)

    def __mul__(self, other: Union["Variable", float]) -> "Variable":
        return self._with("mul", other)

    def __truediv__(self, other: Union["Variable", float]) -> "Variable":
        return self._with("div", other)

    def __radd__(self, other: float) -> "Variable":
        return self._with("add", other)

    def __rmul__(self, other: float) -> "Variable":
        return self._with("mul", other)


# The variables of each input slot of an operator, by the name of the slot.
Inputs = Mapping[str, Sequence[Variable]]
Attrs = Mapping[str, Any]


class Recipe(NamedTuple):
    """The program before its optimizer was added, for passes over it (compiled.py)."""

    forward: _core.Program
    loss: str
    settings: List[Tuple[str, str]]  # the optimizer as fields of a job
    version: int  # of the program after its optimizer was added


class Program:
    """A program that layers, operators, `append_backward` and optimizers extend.

    Attributes:
        core: the program of the C++ library.
        schedule: the learning rate of each step; None: no optimizer was added.
        random_seed: the seed of dropout.
    """

    def __init__(self, name: str = "main", core: Optional[_core.Program] = None) -> None:
        self.core = _core.Program(name) if core is None else core
        self.schedule: Optional[_core.LrSchedule] = None
        self.random_seed = 1
        self._training: Optional[Training] = None  # fleet.distributed_optimizer sets it
        self._recipe: Optional[Recipe] = None  # Optimizer.minimize sets it
        self._readers: List[Any] = []  # tandem.reader.Reader, of which a run without a feed reads
        self._counts: Dict[str, int] = {}
        self._device = ""

    # Names and variables

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.core.name

    @property
    def loss(self) -> Optional[Variable]:
        """The variable that training minimises; None: there is none."""
        return Variable(self, self.core.loss) if self.core.loss else None

    @property
    def metrics(self) -> List[Variable]:
        """The variables that jobs print with the loss."""
        return [Variable(self, name) for name in self.core.metrics]

    def next_name(self, layer: str) -> str:
        """Returns layer_0, layer_1, ..., as the C++ builder names layers."""
        count = self._counts.get(layer, 0)
        # Layers of a program from a file or from the model zoo are not in _counts.
        while self.core.has_var(f"{layer}_{count}.out") or self.core.has_var(f"{layer}_{count}.w"):
            count += 1
        self._counts[layer] = count + 1
        return f"{layer}_{count}"

    def var(self, name: str) -> Variable:
        """Returns the variable of this name.

        Raises:
            NotFoundError: there is none. The hint has the most similar name.
        """
        self.core.kind(name)
        return Variable(self, name)

    def all_parameters(self) -> List[Variable]:
        """The trained variables, in the order of their declaration."""
        return [Variable(self, name) for name in self.core.names("param")]

    def create_parameter(
        self, name: str, shape: Sequence[int], initializer: Initializer
    ) -> Variable:
        """Declares a trained f32 variable."""
        first = initializer
        self.core.add_var(name, "param", "f32", list(shape), first.kind, first.a, first.b)
        return Variable(self, name)

    def create_state(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str = "f32",
        initializer: Initializer = Constant(0.0),
        saved: bool = True,
    ) -> Variable:
        """Declares a variable that lives from run to run and is not trained."""
        first = initializer
        self.core.add_var(name, "state", dtype, list(shape), first.kind, first.a, first.b, saved)
        return Variable(self, name)

    # Operators

    def append(
        self,
        kind: str,
        inputs: Inputs,
        attrs: Optional[Attrs] = None,
        outputs: Optional[Mapping[str, Sequence[str]]] = None,
        layer: Optional[str] = None,
        run_if: Optional[Variable] = None,
        role: str = "forward",
    ) -> List[Variable]:
        """Appends an operator and returns the variables of its outputs, in their order.

        Args:
            kind: the type of the operator (docs/reference/operators.md).
            inputs: the variables of each slot.
            attrs: the attributes that differ from their defaults.
            outputs: names for outputs. The first output is "<layer>.out" otherwise, and each
                further one "<layer>.out.<slot>".
            layer: the name of the layer; None: the next name of `kind`.
            run_if: an f32 variable of one element; the operator runs if it is not 0.
            role: forward, loss, backward or optimize.

        Raises:
            InvalidArgumentError: slots, attributes or shapes do not fit the operator.
            FailedPreconditionError: an input belongs to another program.
        """
        slots = _OUTPUTS.get(kind, [])
        given = {} if outputs is None else dict(outputs)
        names: Dict[str, List[str]] = {}
        for slot, variables in inputs.items():
            names[slot] = [self._own(kind, variable) for variable in variables]
        missing = [name for name, _ in slots if name not in given]
        for slot, many in slots:
            if many and slot in missing:
                raise InvalidArgumentError(
                    f"{kind}: the number of variables in output slot {slot} is not known [TD1206]",
                    f'outputs={{"{slot}": ["a", "b"]}}',
                )
        if missing and layer is None:
            layer = self.next_name(kind)
        for slot in missing:
            base = f"{layer}.out"
            first = slot == slots[0][0]
            given[slot] = [base if first else self.core.fresh_name(f"{base}.{slot}")]
        merged = dict(attrs or {})
        if self._device:
            merged.setdefault("op_device", self._device)
        condition = "" if run_if is None else self._own(kind, run_if)
        self.core.append_op(kind, names, given, merged, role, _caller(), condition)
        return [Variable(self, name) for slot, _ in slots for name in given[slot]]

    def _own(self, kind: str, variable: Variable) -> str:
        if not isinstance(variable, Variable):
            raise InvalidArgumentError(
                f"{kind}: expected a tandem.Variable, got {type(variable).__name__} [TD1206]"
            )
        if variable.program is not self:
            raise FailedPreconditionError(
                f'{kind}: variable "{variable.name}" belongs to program '
                f'"{variable.program.name}", but the current program is "{self.name}" [TD1219]',
                "call the layer inside `with tandem.program_guard(...)` of the variable's program",
            )
        return variable.name

    def list_ops(self) -> List[Dict[str, Any]]:
        """The operators in order: type, inputs, outputs, attrs, role, source and run_if."""
        return self.core.ops()

    # Forms

    def clone(self, for_test: bool = False) -> "Program":
        """Returns a copy. With `for_test`, operators have their evaluation form (`is_test`).

        Make the evaluation form before `append_backward` or `minimize`.

        Raises:
            FailedPreconditionError: the program has communication with other ranks.
        """
        if self._training is not None:
            raise FailedPreconditionError(
                f'program "{self.name}" is part of a distributed training, which a copy cannot join '
                "[TD1219]",
                "clone the program before minimize",
            )
        core = self.core.for_test() if for_test else self.core.clone()
        copy = Program(core=core)
        copy.schedule = self.schedule
        copy.random_seed = self.random_seed
        copy._counts = dict(self._counts)
        copy._readers = list(self._readers)
        if self._recipe is not None and self._recipe.version == self.core.version:
            copy._recipe = self._recipe._replace(version=copy.core.version)
        return copy

    def to_text(self) -> str:
        """The program as text, as in a *.pbtxt file of a job (`model { program: ... }`)."""
        return self.core.to_text()

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the program as text.

        Raises:
            Error: the file cannot be written.
        """
        self.core.save(os.fspath(path))

    def draw(self) -> str:
        """The program as a graph in the DOT language of graphviz."""
        return self.core.draw(self.name)

    def __str__(self) -> str:
        return self.core.dump()

    def __repr__(self) -> str:
        return f"<tandem.Program {self.name}: {len(self.core.ops())} operators>"


class StartupProgram:
    """Sets the initial values of a program when `Executor.run` runs it.

    Attributes:
        program: the program whose parameters and states get their initial values.
        random_seed: the seed of the random values.
        values: arrays that variables get in place of their initial values, by name.
    """

    def __init__(
        self,
        program: Optional[Program] = None,
        random_seed: int = 1,
        values: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.program = program
        self.random_seed = random_seed
        self.values = dict(values or {})

    def __repr__(self) -> str:
        name = "nothing" if self.program is None else self.program.name
        return f"<tandem.StartupProgram of {name}>"


def load_program(path: Union[str, "os.PathLike[str]"]) -> Program:
    """Reads a program from a text file (*.pbtxt).

    Raises:
        FileMissingError: there is no such file.
        InvalidArgumentError: the text is no program. The message has every line with an error.
    """
    return Program(core=_core.Program.load(os.fspath(path)))


# The names of the output slots of each operator. True: a slot has any number of variables.
_OUTPUTS: Dict[str, List[Tuple[str, bool]]] = {
    row.type: [(slot.name, slot.many) for slot in row.outputs] for row in _core.op_table()
}


class _Current(threading.local):
    """The open guards of a thread."""

    def __init__(self) -> None:
        self.stack: List[Tuple[Program, StartupProgram]] = []


_current = _Current()
_default_main = Program("main")
_default_startup = StartupProgram(_default_main)


def current() -> Tuple[Program, StartupProgram]:
    """The program to which layers add, and its startup program."""
    if _current.stack:
        return _current.stack[-1]
    if threading.current_thread() is not threading.main_thread():
        raise FailedPreconditionError(
            "a layer is used outside a program: only the main thread has a default program "
            "[TD1219]",
            "with tandem.program_guard(tandem.Program()): ...",
        )
    return _default_main, _default_startup


def default_main_program() -> Program:
    """The program to which layers add: of the innermost guard, else the default program."""
    return current()[0]


def default_startup_program() -> StartupProgram:
    """The startup program of `default_main_program()`."""
    return current()[1]


@contextlib.contextmanager
def program_guard(
    main: Program, startup: Optional[StartupProgram] = None
) -> Iterator[Tuple[Program, StartupProgram]]:
    """Makes `main` the current program of this thread inside a `with` block.

    Args:
        main: the program to which layers add.
        startup: will initialise `main`; None: a new one.

    Raises:
        FailedPreconditionError: `startup` belongs to another program.
    """
    first = StartupProgram(main) if startup is None else startup
    if first.program is None:
        first.program = main
    if first.program is not main:
        raise FailedPreconditionError(
            f'program_guard: the startup program belongs to program "{first.program.name}" '
            "[TD1219]",
            "give each program a separate StartupProgram()",
        )
    _current.stack.append((main, first))
    try:
        yield main, first
    finally:
        _current.stack.pop()


@contextlib.contextmanager
def op_device(device: str) -> Iterator[None]:
    """Sets `op_device` of the operators that a `with` block adds.

    Args:
        device: "cpu", "gpu", or "gpu:1" for stage 1 of a pipeline.
    """
    program = default_main_program()
    before, program._device = program._device, device
    try:
        yield
    finally:
        program._device = before


# Paddle's name of op_device.
device_guard = op_device


def data(name: str, shape: Sequence[Optional[int]], dtype: str = "f32") -> Variable:
    """Declares a variable that each run feeds.

    Args:
        name: the name in the feed.
        shape: the dimensions. A leading None or -1 is the batch.
        dtype: f32, f16, bf16, i32, i64 or u8; numpy's names such as "float32" work too.

    Raises:
        AlreadyExistsError: the program has a variable of this name.
        InvalidArgumentError: a dimension or the type is wrong.
    """
    program = default_main_program()
    dims = [-1 if dim is None else operator.index(dim) for dim in shape]
    program.core.add_var(name, "data", DTYPES.get(dtype, dtype), dims)
    return Variable(program, name)


# The element types, by their names in numpy.
DTYPES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
}
