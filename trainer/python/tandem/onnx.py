"""Programs from ONNX models, and ONNX models of programs.

`tandem.torch.from_torch` converts a module of PyTorch without a file."""

from __future__ import annotations

import os
from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _core
from .program import Program, Variable, default_main_program
from .scope import Array, Path, Scope, global_scope

__all__ = ["Imported", "load", "read", "save"]


class Imported(NamedTuple):
    """A program of an ONNX model.

    Attributes:
        program: the forward program, and the loss if one was asked for.
        output: the output of the model; with a loss, the logits.
        values: the arrays of the parameters and states, by variable.
        notes: what the import changed or left out.
    """

    program: Program
    output: Variable
    values: Dict[str, Array]
    notes: List[str]


def read(
    model: bytes,
    name: str = "model",
    loss: str = "none",
    output: str = "",
    dir: str = "",
    rename: Optional[Mapping[str, str]] = None,
    constants: AbstractSet[str] = frozenset(),
    frozen: AbstractSet[str] = frozenset(),
    scalars: AbstractSet[str] = frozenset(),
) -> Imported:
    """Converts a serialized ONNX model of opset 7 to 21. Sets no scope.

    Args:
        model: the bytes of the file.
        name: the beginning of each error message.
        loss: "softmax" adds the mean cross entropy of the output with the i64 variable "label", and
            the metric accuracy; "sigmoid" that of independent classes; "none" adds no loss.
        output: the output to use; "": the only one.
        dir: the directory of the model's data files; "": there are none.
        rename: the names of data variables, by inputs of the model. By default, a single input with
            four dimensions becomes "img".
        constants: the initializers, or variables of initializers, that are not trained.
        frozen: the variables of parameters that are not trained. Unlike a constant, such a
            parameter is never computed while the model is read: the program has its variable.
        scalars: the initializers without dimensions that are parameters; others are constants.

    Raises:
        DataLossError: the bytes are no ONNX model.
        UnimplementedError: an operator of the model has no counterpart. The message names the node.
        InvalidArgumentError: the graph is inconsistent.
    """
    names = rename or {}
    made = _core.import_onnx(model, name, loss, output, dir, names, constants, frozen, scalars)
    return _imported(made)


def _imported(made: Tuple[_core.Program, str, Dict[str, Array], List[str]]) -> Imported:
    program = Program(core=made[0])
    return Imported(program, program.var(made[1]), made[2], made[3])


def load(
    path: Path, loss: str = "none", output: str = "", scope: Optional[Scope] = None
) -> Imported:
    """Reads an ONNX file and sets its parameters and states in the scope.

    Args:
        path: the file. Its data files are in the same directory.
        loss: as in `read`.
        output: as in `read`.
        scope: None: the global scope.

    Raises:
        FileMissingError: there is no such file.
        DataLossError, UnimplementedError, InvalidArgumentError: as in `read`.
    """
    file = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(file))
    none: AbstractSet[str] = frozenset()
    made = _core.import_onnx(None, file, loss, output, folder, {}, none, none, none)
    imported = _imported(made)
    found = global_scope() if scope is None else scope
    for name, value in imported.values.items():
        found.set(name, value)
    return imported


def save(
    path: Path,
    outputs: Sequence[Union[Variable, str]] = (),
    program: Optional[Program] = None,
    scope: Optional[Scope] = None,
) -> None:
    """Writes the inference form of a program as an ONNX file of opset 12.

    Args:
        path: the file. It appears under this name when it is complete.
        outputs: the variables to compute; empty: those that loss and metrics read and that need no
            label.
        program: a program, before or after an optimizer was added; None: the current main program.
        scope: the values of the parameters and states; None: the global scope.

    Raises:
        NotFoundError: an output is no variable, or a parameter has no value in the scope.
        UnimplementedError: an operator has no ONNX form. The message names the operator.
    """
    chosen = default_main_program() if program is None else program
    found = global_scope() if scope is None else scope
    recipe = chosen._recipe
    trained = recipe is not None and recipe.version == chosen.core.version
    core = recipe.forward if recipe is not None and trained else chosen.core
    names = [out.name if isinstance(out, Variable) else out for out in outputs]
    _core.export_onnx(core, found.core, os.fspath(path), names)
