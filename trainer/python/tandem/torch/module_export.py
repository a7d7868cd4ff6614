"""A module of PyTorch as a program that Tandem reads from PyTorch's ONNX exporter, and the comparison of
the outputs of both."""

from __future__ import annotations

import io
import warnings
from typing import AbstractSet, Any, Dict, List, NamedTuple, Optional, Set, Tuple

import numpy
import torch

from .. import onnx
from ..errors import UnimplementedError
from ..executor import Executor
from ..scope import Array, Scope

# The largest difference of the outputs of a module and its program, by the largest output.
_DIFFERENCE = 1e-3
_NUMPY = {"f32": numpy.float32, "i32": numpy.int32, "i64": numpy.int64, "u8": numpy.uint8}


class _Whole(torch.nn.Module):  # type: ignore[misc]
    """A module whose parts are in the state of `eval()`, but which itself claims to train: the
    exporter then does not merge parameters of equal values."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module
        self.training = True

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


def export(
    module: Any, example: Tuple[Any, ...], names: List[str], opset: int, folded: bool = True
) -> bytes:
    """Returns the module, which is in the state of `eval()`, as an ONNX model. In the mode PRESERVE the
    exporter does not merge batch normalisation into convolutions. `folded`: the exporter computes what
    depends on parameters alone."""
    file = io.BytesIO()
    more = {"dynamo": False} if "dynamo" in torch.onnx.export.__code__.co_varnames else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Whole(module),
            example,
            file,
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=folded,
            keep_initializers_as_inputs=False,
            input_names=names,
            output_names=["output"],
            dynamic_axes={name: {0: "batch"} for name in [*names, "output"]},
            opset_version=opset,
            **more,
        )
    return file.getvalue()


class Untrained(NamedTuple):
    """Names that the program does not train.

    Attributes:
        constants: initializers, or variables, that are constants of the module.
        frozen: variables of frozen parameters.
    """

    constants: Set[str]
    frozen: Set[str]


class ModuleExport:
    """Exports and reads a module, which is in the state of `eval()`. Not for several threads."""

    def __init__(
        self,
        module: Any,
        inputs: Tuple[Any, ...],
        names: List[str],
        opset: int,
        loss: str,
        scalars: AbstractSet[str],
    ) -> None:
        """`names` are those of the inputs; `scalars` are parameters without dimensions, as the
        exporter calls them."""
        self._module = module
        self._inputs = inputs
        self._names = names
        self._opset = opset
        self._loss = loss
        self._scalars = scalars
        self._model = b""

    def read(self, folded: bool, untrained: Untrained) -> onnx.Imported:
        """Returns the program of the module with the values that the module has now. `folded`: the
        exporter computes what depends on parameters alone.

        Raises:
            UnimplementedError: the module uses an operator that Tandem has not.
        """
        self._model = export(self._module, self._inputs, self._names, self._opset, folded)
        return self._imported(self._loss, untrained)

    def output(self) -> Any:
        """Returns what the module computes for the example; None: not one tensor of floats."""
        with torch.enable_grad():  # without gradients, attention may have another form
            result = self._module(*(value.clone() for value in self._inputs))
        while isinstance(result, (tuple, list, dict)) and len(result) == 1:
            result = next(iter(result.values() if isinstance(result, dict) else result))
        floats = isinstance(result, torch.Tensor) and result.dtype == torch.float32
        return result.detach().numpy() if floats else None

    def difference(
        self, wanted: Any, untrained: Untrained, values: Dict[str, Array]
    ) -> Optional[UnimplementedError]:
        """Runs the program that was read last, with `values` in its variables and without a loss.
        Returns None if its output is `wanted`, or why the program is refused. Elements that are not
        finite in `wanted` are not compared."""
        if wanted is None:
            return None
        imported = self._imported("none", untrained)
        scope = Scope()
        for name, value in imported.values.items():
            scope.set(name, values.get(name, value))
        feed = {name: value.detach().numpy().astype(_NUMPY[imported.program.var(name).dtype])
                for name, value in zip(self._names, self._inputs)}
        program = imported.program.clone(for_test=True)
        mine, = Executor().run(program, feed, [imported.output.name], scope=scope)
        finite = numpy.isfinite(wanted).reshape(-1)
        if mine.size == wanted.size:
            theirs = wanted.reshape(-1)[finite].astype(numpy.float64)
            gap = numpy.abs(mine.reshape(-1)[finite] - theirs).max(initial=0)
            largest = numpy.abs(theirs).max(initial=0)
            if gap <= _DIFFERENCE * largest + 1e-6:
                return None
            text = f"differs by {gap:.3g} from that of the module, whose largest number is {largest:.3g}"
        else:
            text = f"has {mine.size} numbers, that of the module has {wanted.size}"
        return UnimplementedError(
            f"the output of the program for the example {text} [TD7015]",
            "read parameters as tensors, without item() or float(), and give each row of an attention "
            "mask of the example a value that is not masked",
        )

    def _imported(self, loss: str, untrained: Untrained) -> onnx.Imported:
        return onnx.read(
            self._model,
            "the module",
            loss,
            rename={name: name for name in self._names},
            constants=untrained.constants,
            frozen=untrained.frozen,
            scalars=self._scalars,
        )
