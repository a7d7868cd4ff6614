"""Layers with Paddle's arguments, over tandem.layers and tandem.ops.

An argument that Tandem does not implement raises UnimplementedError. `name`, `use_cudnn` and
`in_place` have no effect on results.
"""

from typing import Any, List, Optional, Sequence, Union

import tandem
from tandem import Variable
from tandem.errors import InvalidArgumentError, UnimplementedError
from tandem.layers import concat, gelu, relu, sigmoid, split, tanh
from tandem.reader import py_reader, read_file

from .schedules import cosine_decay, exponential_decay, piecewise_decay, polynomial_decay

__all__ = [
    "accuracy",
    "auc",
    "batch_norm",
    "concat",
    "conv2d",
    "cosine_decay",
    "cross_entropy",
    "data",
    "double_buffer",
    "dropout",
    "elementwise_add",
    "elementwise_div",
    "elementwise_mul",
    "elementwise_sub",
    "embedding",
    "exponential_decay",
    "fc",
    "flatten",
    "gelu",
    "layer_norm",
    "mean",
    "piecewise_decay",
    "polynomial_decay",
    "pool2d",
    "py_reader",
    "read_file",
    "reduce_mean",
    "reduce_sum",
    "relu",
    "reshape",
    "scale",
    "sigmoid",
    "softmax",
    "softmax_with_cross_entropy",
    "split",
    "square_error_cost",
    "sum",
    "tanh",
    "transpose",
]


def _refuse(layer: str, **given: bool) -> None:
    """Raises an error that names the arguments whose value is True."""
    names = [name for name, refused in given.items() if refused]
    if names:
        raise UnimplementedError(
            f"{layer}: this value of {', '.join(names)} is not implemented [TD1109]"
        )


def data(name: str, shape: Sequence[int], append_batch_size: bool = True, dtype: str = "float32",
         lod_level: int = 0, type: Any = None, stop_gradient: bool = True) -> Variable:
    """Declares a data variable; the batch is added before `shape` unless append_batch_size=False."""
    _refuse("data", lod_level=lod_level != 0, type=type is not None,
            stop_gradient=not stop_gradient)
    dims: List[Optional[int]] = list(shape)
    batch = append_batch_size and not (dims and dims[0] in (None, -1))
    return tandem.data(name, [None, *dims] if batch else dims, dtype)


def fc(input: Variable, size: int, num_flatten_dims: int = 1, param_attr: Any = None,
       bias_attr: Any = None, act: Optional[str] = None, name: Optional[str] = None) -> Variable:
    """Fully connected."""
    _refuse("fc", num_flatten_dims=num_flatten_dims != 1)
    return tandem.layers.fc(input, size, act, param_attr, bias_attr, name)


def conv2d(input: Variable, num_filters: int, filter_size: Union[int, Sequence[int]],
           stride: Union[int, Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0,
           dilation: Union[int, Sequence[int]] = 1, groups: Optional[int] = None,
           param_attr: Any = None, bias_attr: Any = None, use_cudnn: bool = True,
           act: Optional[str] = None, name: Optional[str] = None,
           data_format: str = "NCHW") -> Variable:
    """Convolution of images."""
    del use_cudnn
    _refuse("conv2d", dilation=dilation not in (1, [1, 1], (1, 1)),
            data_format=data_format != "NCHW")
    return tandem.layers.conv2d(input, num_filters, filter_size, stride, padding, groups or 1, act,
                                param_attr, bias_attr, name)


def pool2d(input: Variable, pool_size: Union[int, Sequence[int]] = -1, pool_type: str = "max",
           pool_stride: Union[int, Sequence[int]] = 1, pool_padding: Union[int, Sequence[int]] = 0,
           global_pooling: bool = False, use_cudnn: bool = True, ceil_mode: bool = False,
           name: Optional[str] = None, exclusive: bool = True,
           data_format: str = "NCHW") -> Variable:
    """Pooling of images."""
    del use_cudnn, name
    padded = pool_padding not in (0, [0, 0], (0, 0))
    _refuse("pool2d", ceil_mode=ceil_mode, data_format=data_format != "NCHW",
            exclusive=not exclusive and padded and pool_type == "avg")
    size = 1 if global_pooling and pool_size == -1 else pool_size
    return tandem.layers.pool2d(input, size, pool_type, pool_stride, pool_padding, global_pooling)


def batch_norm(input: Variable, act: Optional[str] = None, is_test: bool = False,
               momentum: float = 0.9, epsilon: float = 1e-5, param_attr: Any = None,
               bias_attr: Any = None, data_layout: str = "NCHW", in_place: bool = False,
               name: Optional[str] = None, moving_mean_name: Optional[str] = None,
               moving_variance_name: Optional[str] = None, do_model_average_for_mean_and_var: bool = True,
               use_global_stats: bool = False) -> Variable:
    """Batch normalisation. `program.clone(for_test=True)` makes the evaluation form."""
    del in_place, do_model_average_for_mean_and_var
    _refuse("batch_norm", is_test=is_test, data_layout=data_layout != "NCHW",
            moving_mean_name=moving_mean_name is not None,
            moving_variance_name=moving_variance_name is not None,
            use_global_stats=use_global_stats)
    return tandem.layers.batch_norm(input, act, momentum, epsilon, param_attr, bias_attr, name)


def layer_norm(input: Variable, scale: bool = True, shift: bool = True, begin_norm_axis: int = 1,
               epsilon: float = 1e-5, param_attr: Any = None, bias_attr: Any = None,
               act: Optional[str] = None, name: Optional[str] = None) -> Variable:
    """Layer normalisation over the last dimension."""
    _refuse("layer_norm", scale=not scale, shift=not shift, act=act is not None,
            begin_norm_axis=begin_norm_axis != len(input.shape) - 1)
    return tandem.layers.layer_norm(input, epsilon, param_attr, bias_attr, name)


def embedding(input: Variable, size: Sequence[int], is_sparse: bool = False,
              is_distributed: bool = False, padding_idx: Optional[int] = None,
              param_attr: Any = None, dtype: str = "float32") -> Variable:
    """Rows of a table by their ids."""
    _refuse("embedding", dtype=dtype != "float32")
    if padding_idx is None:
        row = -1
    else:
        row = padding_idx if padding_idx >= 0 else size[0] + padding_idx
    return tandem.layers.embedding(input, size, row, is_sparse, is_distributed, param_attr)


def dropout(x: Variable, dropout_prob: float, is_test: bool = False, seed: Optional[int] = None,
            name: Optional[str] = None,
            dropout_implementation: str = "downgrade_in_infer") -> Variable:
    """Dropout. With downgrade_in_infer, training keeps the values of the elements that are not
    dropped, and evaluation multiplies all by 1 - dropout_prob."""
    _refuse("dropout", is_test=is_test, seed=seed is not None)
    if dropout_implementation not in ("downgrade_in_infer", "upscale_in_train"):
        raise InvalidArgumentError(
            f'dropout_implementation is "{dropout_implementation}" [TD1006]'
        )
    out = tandem.layers.dropout(x, dropout_prob, name)
    if dropout_implementation == "upscale_in_train" or dropout_prob == 0:
        return out
    return scale(out, 1.0 - dropout_prob)


def softmax(input: Variable, use_cudnn: bool = False, name: Optional[str] = None,
            axis: int = -1) -> Variable:
    """Softmax of the last dimension."""
    del use_cudnn, name
    _refuse("softmax", axis=axis not in (-1, len(input.shape) - 1))
    return tandem.layers.softmax(input)


def _logits_of(probabilities: Variable) -> Variable:
    """Returns the input of the softmax operator that computed `probabilities`."""
    program = probabilities.program
    for op in program.list_ops():
        if op["type"] == "softmax" and probabilities.name in op["outputs"]["Out"]:
            return program.var(op["inputs"]["X"][0])
    raise UnimplementedError(
        f'cross_entropy of "{probabilities.name}": only the result of softmax is implemented '
        "[TD1109]",
        "use softmax_with_cross_entropy on the logits",
    )


def cross_entropy(input: Variable, label: Variable, soft_label: bool = False,
                  ignore_index: int = -100) -> Variable:
    """-log of the probability of each label [batch, 1]. `input` must be the result of softmax; the
    loss is computed from its logits, as softmax_with_cross_entropy does."""
    _refuse("cross_entropy", soft_label=soft_label)
    loss: Variable = softmax_with_cross_entropy(_logits_of(input), label, ignore_index=ignore_index)
    return loss


def softmax_with_cross_entropy(logits: Variable, label: Variable, soft_label: bool = False,
                               ignore_index: int = -100, numeric_stable_mode: bool = True,
                               return_softmax: bool = False, axis: int = -1) -> Any:
    """-log softmax(logits)[label] of each row [batch, 1]."""
    del numeric_stable_mode  # the operator always subtracts the largest logit
    _refuse("softmax_with_cross_entropy", soft_label=soft_label,
            axis=axis not in (-1, len(logits.shape) - 1))
    program = tandem.default_main_program()
    attrs = {} if ignore_index == -100 else {"ignore_index": ignore_index}
    slots = {"Logits": [logits], "Label": [label]}
    layer = program.next_name("softmax_loss")
    names = {"Softmax": [f"{layer}.softmax"], "Loss": [f"{layer}.rows"]}
    softmax_out, loss = program.append("softmax_with_cross_entropy", slots, attrs, names)
    return (loss, softmax_out) if return_softmax else loss


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label)^2 of each element."""
    return tandem.ops.square_error_cost(input, label)


def accuracy(input: Variable, label: Variable, k: int = 1, correct: Any = None,
             total: Any = None) -> Variable:
    """The share of the rows whose largest value is at the label."""
    _refuse("accuracy", k=k != 1, correct=correct is not None, total=total is not None)
    return tandem.layers.accuracy(input, label)


def auc(input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 4095,
        topk: int = 1, slide_steps: int = 1) -> Any:
    """The area under the ROC curve over all steps. Returns (auc, batch auc, states) as Paddle
    does; the first two are the same variable."""
    _refuse("auc", curve=curve != "ROC", num_thresholds=num_thresholds != 4095, topk=topk != 1,
            slide_steps=slide_steps != 1)
    out = tandem.layers.auc(input, label)
    return out, out, []


def mean(x: Variable, name: Optional[str] = None) -> Variable:
    """The mean of all elements."""
    del name
    return tandem.layers.mean(x)


def reduce_mean(input: Variable, dim: Any = None, keep_dim: bool = False,
                name: Optional[str] = None) -> Variable:
    """The mean over dimensions; of all elements without `dim`."""
    del name
    _refuse("reduce_mean", keep_dim=keep_dim and dim is None)
    if dim is None:
        return tandem.layers.mean(input)
    return tandem.ops.reduce_mean(input, dim=_dims(dim), keep_dim=keep_dim)


def _dims(dim: Any) -> List[int]:
    return [dim] if isinstance(dim, int) else list(dim)


def reduce_sum(input: Variable, dim: Any = None, keep_dim: bool = False,
               name: Optional[str] = None) -> Variable:
    """The sum over dimensions."""
    del name
    _refuse("reduce_sum", dim=dim is None)
    return tandem.ops.reduce_sum(input, dim=_dims(dim), keep_dim=keep_dim)


def scale(x: Variable, scale: float = 1.0, bias: float = 0.0, bias_after_scale: bool = True,
          act: Optional[str] = None, name: Optional[str] = None) -> Variable:
    """scale x + bias."""
    del name
    _refuse("scale", bias_after_scale=not bias_after_scale and bias != 0, act=act is not None)
    return tandem.ops.scale(x, scale=float(scale), bias=float(bias))


def reshape(x: Variable, shape: Sequence[int], actual_shape: Any = None, act: Optional[str] = None,
            inplace: bool = False, name: Optional[str] = None) -> Variable:
    """Another shape; 0 keeps a dimension, -1 is inferred."""
    del inplace, name
    _refuse("reshape", actual_shape=actual_shape is not None, act=act is not None)
    return tandem.layers.reshape(x, shape)


def flatten(x: Variable, axis: int = 1, name: Optional[str] = None) -> Variable:
    """[batch, all other dimensions]."""
    del name
    _refuse("flatten", axis=axis != 1)
    return tandem.layers.flatten(x)


def transpose(x: Variable, perm: Sequence[int], name: Optional[str] = None) -> Variable:
    """Another order of the dimensions."""
    del name
    return tandem.layers.transpose(x, perm)


def sum(x: Any) -> Variable:
    """The sum of variables of one shape."""
    return tandem.ops.sum(x if isinstance(x, (list, tuple)) else [x])


def _elementwise(kind: str, x: Variable, y: Variable, axis: int, act: Optional[str]) -> Variable:
    out: Variable = getattr(tandem.ops, f"elementwise_{kind}")(x, y, axis=axis)
    if act is not None:
        out = getattr(tandem.layers, act)(out)
    return out


def elementwise_add(x: Variable, y: Variable, axis: int = -1, act: Optional[str] = None,
                    name: Optional[str] = None) -> Variable:
    """x + y."""
    del name
    return _elementwise("add", x, y, axis, act)


def elementwise_sub(x: Variable, y: Variable, axis: int = -1, act: Optional[str] = None,
                    name: Optional[str] = None) -> Variable:
    """x - y."""
    del name
    return _elementwise("sub", x, y, axis, act)


def elementwise_mul(x: Variable, y: Variable, axis: int = -1, act: Optional[str] = None,
                    name: Optional[str] = None) -> Variable:
    """x y."""
    del name
    return _elementwise("mul", x, y, axis, act)


def elementwise_div(x: Variable, y: Variable, axis: int = -1, act: Optional[str] = None,
                    name: Optional[str] = None) -> Variable:
    """x / y."""
    del name
    return _elementwise("div", x, y, axis, act)


def double_buffer(reader: Any, place: Any = None, name: Optional[str] = None) -> Any:
    """Returns the reader, which converts its batches ahead (use_double_buffer)."""
    del place, name
    return reader
