"""Layers: operators with their parameters.

A layer adds to the current program. It names its parameters "<layer>_<n>.w" and "<layer>_<n>.b",
as the model zoo of jobs does, so the same network in Python and in a job file is the same program.
Images are [batch, channels, height, width].

Arguments of several layers:
    act: the activation of the result: "relu", "sigmoid", "tanh", "gelu", "softmax"; None: none.
    param_attr, bias_attr: a ParamAttr, a name or initial values; False for a bias: none.
    name: the name of the layer; None: the next name of its kind.

All layers raise InvalidArgumentError if shapes do not fit.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .attributes import AttrLike, attributes_of
from .errors import InvalidArgumentError
from .initializer import Constant, Initializer, MSRANormal, Normal, XavierUniform
from .program import Program, Variable, default_main_program

__all__ = [
    "accuracy",
    "auc",
    "batch_norm",
    "concat",
    "conv2d",
    "cross_entropy",
    "dropout",
    "embedding",
    "fc",
    "flatten",
    "gelu",
    "layer_norm",
    "mean",
    "pool2d",
    "relu",
    "reshape",
    "sequence_pool",
    "sigmoid",
    "sigmoid_loss",
    "softmax",
    "softmax_loss",
    "softmax_with_cross_entropy",
    "split",
    "tanh",
    "transpose",
]

_ACTIVATIONS = ("relu", "sigmoid", "tanh", "gelu", "softmax")


def _program(kind: str, *variables: Variable) -> Program:
    """Returns the current program, which must have the variables."""
    program = default_main_program()
    for variable in variables:
        program._own(kind, variable)
    return program


def _activate(program: Program, x: Variable, act: Optional[str]) -> Variable:
    if act is None:
        return x
    if act not in _ACTIVATIONS:
        raise InvalidArgumentError(
            f'act: expected one of {", ".join(_ACTIVATIONS)} or None, got "{act}" [TD1006]'
        )
    return program.append(act, {"X": [x]})[0]


def _parameter(
    program: Program, attr: AttrLike, default: Initializer, name: str, shape: Sequence[int]
) -> Optional[Variable]:
    """Declares a parameter, or returns one that has the name already and is shared."""
    found = attributes_of(attr, default)
    if found is None:
        return None
    chosen = found.name or name
    if found.name is not None and program.core.has_var(chosen):
        shared = program.var(chosen)
        if shared.shape != tuple(shape):
            raise InvalidArgumentError(
                f'parameter "{chosen}" has the shape {list(shared.shape)}, expected '
                f"{list(shape)} [TD1207]"
            )
        return shared
    return program.create_parameter(chosen, shape, found.initializer or default)


def _weight(
    program: Program, attr: AttrLike, default: Initializer, name: str, shape: Sequence[int]
) -> Variable:
    weight = _parameter(program, attr, default, name, shape)
    if weight is None:
        raise InvalidArgumentError(f'"{name}": a layer needs its weight, got False [TD1206]')
    return weight


def _list(variable: Optional[Variable]) -> List[Variable]:
    return [] if variable is None else [variable]


def _pair(value: Union[int, Sequence[int]], what: str) -> List[int]:
    if isinstance(value, int):
        return [value, value]
    if len(value) != 2:
        raise InvalidArgumentError(f"{what}: expected a number or two, got {value!r} [TD1206]")
    return list(value)


def fc(
    x: Variable,
    size: int,
    act: Optional[str] = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: Optional[str] = None,
) -> Variable:
    """Fully connected: flattens x [batch, ...] to [batch, k] and returns x W + b [batch, size]."""
    program = _program("fc", x)
    dims = x.shape
    k = math.prod(dims[1:])
    if len(dims) != 2:
        x = reshape(x, [0, k])
    layer = name or program.next_name("fc")
    weight = _weight(program, param_attr, XavierUniform(), f"{layer}.w", [k, size])
    bias = _parameter(program, bias_attr, Constant(0.0), f"{layer}.b", [size])
    slots = {"Input": [x], "W": [weight], "Bias": _list(bias)}
    return _activate(program, program.append("fc", slots, layer=layer)[0], act)


def conv2d(
    x: Variable,
    num_filters: int,
    filter_size: Union[int, Sequence[int]] = 3,
    stride: Union[int, Sequence[int]] = 1,
    padding: Union[int, Sequence[int]] = 0,
    groups: int = 1,
    act: Optional[str] = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: Optional[str] = None,
) -> Variable:
    """Convolution of images. Returns [batch, num_filters, height, width] of the result."""
    program = _program("conv2d", x)
    dims = x.shape
    if len(dims) != 4:
        raise InvalidArgumentError(
            f'conv2d of "{x.name}": the input has shape {list(dims)}, expected [batch, channels, '
            "height, width] [TD1207]"
        )
    layer = name or program.next_name("conv")
    if groups < 1 or dims[1] % groups != 0:
        raise InvalidArgumentError(
            f'conv2d of "{x.name}": {dims[1]} channels cannot be divided into {groups} groups '
            "[TD1207]"
        )
    shape = [num_filters, dims[1] // groups, *_pair(filter_size, "filter_size")]
    weight = _weight(program, param_attr, MSRANormal(), f"{layer}.w", shape)
    bias = _parameter(program, bias_attr, Constant(0.0), f"{layer}.b", [num_filters])
    attrs = {
        "strides": _pair(stride, "stride"),
        "paddings": _pair(padding, "padding"),
        "groups": groups,
    }
    slots = {"Input": [x], "Filter": [weight], "Bias": _list(bias)}
    return _activate(program, program.append("conv2d", slots, attrs, layer=layer)[0], act)


def pool2d(
    x: Variable,
    pool_size: Union[int, Sequence[int]] = 2,
    pool_type: str = "max",
    pool_stride: Union[int, Sequence[int]] = 2,
    pool_padding: Union[int, Sequence[int]] = 0,
    global_pooling: bool = False,
) -> Variable:
    """Pooling of images: the "max" or the "avg" of each window."""
    attrs = {
        "pooling_type": pool_type,
        "ksize": _pair(pool_size, "pool_size"),
        "strides": _pair(pool_stride, "pool_stride"),
        "paddings": _pair(pool_padding, "pool_padding"),
        "global_pooling": global_pooling,
    }
    return _program("pool2d", x).append("pool2d", {"X": [x]}, attrs)[0]


def batch_norm(
    x: Variable,
    act: Optional[str] = None,
    momentum: Optional[float] = None,
    epsilon: Optional[float] = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: Optional[str] = None,
) -> Variable:
    """Normalises each channel over the batch. Keeps running statistics for the evaluation."""
    program = _program("batch_norm", x)
    dims = x.shape
    layer = name or program.next_name("batch_norm")
    if len(dims) < 2:
        raise InvalidArgumentError(
            f'batch_norm of "{x.name}": the shape {list(dims)} has no dimension for channels '
            "[TD1207]"
        )
    channels = [dims[1]]
    weight = _weight(program, param_attr, Constant(1.0), f"{layer}.w", channels)
    bias = _weight(program, bias_attr, Constant(0.0), f"{layer}.b", channels)
    mean_ = program.create_state(f"{layer}.mean", channels)
    variance = program.create_state(f"{layer}.variance", channels, initializer=Constant(1.0))
    slots = {
        "X": [x],
        "Scale": [weight],
        "Bias": [bias],
        "Mean": [mean_],
        "Variance": [variance],
    }
    outputs = {
        "Y": [f"{layer}.out"],
        "MeanOut": [mean_.name],
        "VarianceOut": [variance.name],
        "SavedMean": [f"{layer}.out.SavedMean"],
        "SavedInvStd": [f"{layer}.out.SavedInvStd"],
    }
    chosen = {"momentum": momentum, "epsilon": epsilon}
    attrs = {key: value for key, value in chosen.items() if value is not None}
    return _activate(program, program.append("batch_norm", slots, attrs, outputs)[0], act)


def layer_norm(
    x: Variable,
    epsilon: Optional[float] = None,
    param_attr: AttrLike = None,
    bias_attr: AttrLike = None,
    name: Optional[str] = None,
) -> Variable:
    """Normalises over the last dimension."""
    program = _program("layer_norm", x)
    layer = name or program.next_name("layer_norm")
    last = len(x.shape) - 1
    if last < 0:
        raise InvalidArgumentError(
            f'layer_norm of "{x.name}": the input is a scalar, expected at least 1 dimension '
            "[TD1207]"
        )
    row = [x.shape[last]]
    weight = _weight(program, param_attr, Constant(1.0), f"{layer}.w", row)
    bias = _weight(program, bias_attr, Constant(0.0), f"{layer}.b", row)
    attrs: Dict[str, Any] = {"begin_norm_axis": last, **({} if epsilon is None else {"epsilon": epsilon})}
    slots = {"X": [x], "Scale": [weight], "Bias": [bias]}
    return program.append("layer_norm", slots, attrs, layer=layer)[0]


def embedding(
    ids: Variable,
    size: Sequence[int],
    padding_idx: int = -1,
    is_sparse: bool = False,
    is_distributed: bool = False,
    param_attr: AttrLike = None,
    name: Optional[str] = None,
) -> Variable:
    """Rows of a table by i64 ids: [dims of ids..., dim].

    Args:
        ids: i64 numbers in [0, size[0]).
        size: (rows, dim) of the table.
        padding_idx: this id gives zeros and is not trained; -1: none.
        is_sparse: the gradient of the table is sparse rows.
        is_distributed: in pserver mode only the servers store the table.
    """
    program = _program("embedding", ids)
    rows, dim = size
    layer = name or program.next_name("embedding")
    table = _weight(program, param_attr, Normal(0.0, 0.02), f"{layer}.w", [rows, dim])
    attrs: Dict[str, Any] = {
        "is_sparse": is_sparse or is_distributed,
        "padding_idx": padding_idx,
        "squeeze_last": False,
    }
    if is_distributed:
        attrs["is_distributed"] = True
    slots = {"Ids": [ids], "W": [table]}
    return program.append("lookup_table", slots, attrs, layer=layer)[0]


def dropout(x: Variable, dropout_prob: float, name: Optional[str] = None) -> Variable:
    """Sets elements to 0 with this probability, and scales the others. Probability 0 returns x.

    The elements depend on the seed of the program, the step and the sample. The evaluation form
    of a program drops nothing.
    """
    program = _program("dropout", x)
    if dropout_prob == 0:
        return x
    position = "dropout_position"
    if not program.core.has_var(position):
        program.create_state(position, [4], "i64", saved=False)
    layer = name or program.next_name("dropout")
    slots = {"X": [x], "Position": [program.var(position)]}
    attrs = {"dropout_prob": float(dropout_prob), "name": layer}
    return program.append("dropout", slots, attrs, layer=layer)[0]


def relu(x: Variable) -> Variable:
    """max(x, 0)."""
    return _program("relu", x).append("relu", {"X": [x]})[0]


def sigmoid(x: Variable) -> Variable:
    """1 / (1 + exp(-x))."""
    return _program("sigmoid", x).append("sigmoid", {"X": [x]})[0]


def tanh(x: Variable) -> Variable:
    """The hyperbolic tangent."""
    return _program("tanh", x).append("tanh", {"X": [x]})[0]


def gelu(x: Variable) -> Variable:
    """x times the normal distribution function of x."""
    return _program("gelu", x).append("gelu", {"X": [x]})[0]


def softmax(x: Variable) -> Variable:
    """Softmax over the last dimension."""
    return _program("softmax", x).append("softmax", {"X": [x]})[0]


def mean(x: Variable) -> Variable:
    """The mean over all elements, of shape [1]."""
    return _program("mean", x).append("mean", {"X": [x]})[0]


def reshape(x: Variable, shape: Sequence[int]) -> Variable:
    """The same elements in another shape. 0 copies a dimension, -1 is computed."""
    return _program("reshape", x).append("reshape", {"X": [x]}, {"shape": list(shape)})[0]


def flatten(x: Variable) -> Variable:
    """[batch, ...] as [batch, k]."""
    return reshape(x, [0, math.prod(x.shape[1:])])


def transpose(x: Variable, perm: Sequence[int]) -> Variable:
    """The dimensions in the order `perm`."""
    return _program("transpose", x).append("transpose", {"X": [x]}, {"axis": list(perm)})[0]


def concat(xs: Sequence[Variable], axis: int = 0) -> Variable:
    """The variables one after another along `axis`."""
    return _program("concat", *xs).append("concat", {"X": list(xs)}, {"axis": axis})[0]


def split(
    x: Variable, num_or_sections: Union[int, Sequence[int]], axis: int = 0
) -> List[Variable]:
    """Parts along `axis`: a number of equal parts, or parts of these sizes."""
    program = _program("split", x)
    equal = isinstance(num_or_sections, int)
    sizes = [] if isinstance(num_or_sections, int) else list(num_or_sections)
    count = num_or_sections if isinstance(num_or_sections, int) else len(sizes)
    layer = program.next_name("split")
    names = [f"{layer}.out{i}" for i in range(count)]
    attrs: Dict[str, Any] = {"axis": axis}
    attrs["num" if equal else "sections"] = count if equal else sizes
    return program.append("split", {"X": [x]}, attrs, {"Out": names})


def sequence_pool(x: Variable, pool_type: str = "sum", lengths: Optional[Variable] = None) -> Variable:
    """Reduces sequences [batch, steps, dim] to [batch, dim]."""
    slots = {"X": [x], "Lengths": _list(lengths)}
    return _program("sequence_pool", x).append("sequence_pool", slots, {"pooltype": pool_type})[0]


def softmax_with_cross_entropy(logits: Variable, label: Variable) -> Tuple[Variable, Variable]:
    """Returns the softmax of logits [batch, classes] and the loss of each row [batch, 1].

    Args:
        label: i64 [batch, 1]; rows labelled -100 count as 0.
    """
    program = _program("softmax_with_cross_entropy", logits, label)
    layer = program.next_name("softmax_loss")
    outputs = {"Softmax": [f"{layer}.softmax"], "Loss": [f"{layer}.rows"]}
    slots = {"Logits": [logits], "Label": [label]}
    made = program.append("softmax_with_cross_entropy", slots, None, outputs)
    return made[0], made[1]


def cross_entropy(logits: Variable, label: Variable) -> Variable:
    """The loss of each row [batch, 1] of `softmax_with_cross_entropy`."""
    return softmax_with_cross_entropy(logits, label)[1]


def softmax_loss(logits: Variable, label: Variable) -> Variable:
    """The mean over the batch of the cross entropy. It becomes the loss of the program."""
    loss = mean(cross_entropy(logits, label))
    loss.program.core.loss = loss.name
    return loss


def sigmoid_loss(logits: Variable, label: Variable) -> Tuple[Variable, Variable]:
    """Returns (loss, probabilities): the mean cross entropy of sigmoid(logits), which becomes the
    loss of the program.

    Args:
        label: i64, of the shape of the logits.
    """
    program = _program("sigmoid_cross_entropy", logits, label)
    layer = program.next_name("sigmoid_loss")
    definition = {"Sigmoid": [f"{layer}.sigmoid"], "Loss": [f"{layer}.rows"]}
    slots = {"Logits": [logits], "Label": [label]}
    made = program.append("sigmoid_cross_entropy", slots, None, definition)
    loss = mean(made[1])
    program.core.loss = loss.name
    return loss, made[0]


def accuracy(logits: Variable, label: Variable) -> Variable:
    """The share of rows whose largest logit is the label [1]. It becomes a metric."""
    program = _program("accuracy", logits, label)
    out = program.append("accuracy", {"Out": [logits], "Label": [label]})[0]
    program.core.metrics = [*program.core.metrics, out.name]
    return out


def auc(probability: Variable, label: Variable) -> Variable:
    """The area under the ROC curve over all batches so far [1]. It becomes a metric."""
    program = _program("auc", probability, label)
    layer = program.next_name("auc")
    counts = [
        program.create_state(f"{layer}@{side}", [4096], "i64") for side in ("positive", "negative")
    ]
    slots = {
        "Predict": [probability],
        "Label": [label],
        "StatPos": [counts[0]],
        "StatNeg": [counts[1]],
    }
    outputs = {
        "AUC": [f"{layer}.out"],
        "StatPosOut": [counts[0].name],
        "StatNegOut": [counts[1].name],
    }
    out = program.append("auc", slots, None, outputs)[0]
    program.core.metrics = [*program.core.metrics, out.name]
    return out
