"""ONNX graphs of opset 12 by numpy alone, as https://onnx.ai/onnx/operators/ defines the operators."""

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

DTYPES = {TensorProto.FLOAT: np.float32, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}


def padded(x, pads, value):
    top, left, bottom, right = pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def windows(x, kernel, strides, dilations=(1, 1)):
    """[n, c, h, w, kh, kw]."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    view = sliding_window_view(x, reach, axis=(2, 3))
    return view[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]


def conv(a, x, w, b=None):
    view = windows(padded(x, a["pads"], 0), w.shape[2:], a["strides"], a["dilations"])
    groups = a["group"]
    parts = [np.einsum("nchwij,mcij->nmhw", v, f)
             for v, f in zip(np.split(view, groups, 1), np.split(w, groups, 0))]
    out = np.concatenate(parts, 1)
    return out if b is None else out + b[:, None, None]


def conv_transpose(a, x, w):
    assert a["group"] == 1 and a["dilations"] == [1, 1]
    (n, _, h, width), (_, c, kh, kw) = x.shape, w.shape
    (sh, sw), (top, left, bottom, right), (oh, ow) = a["strides"], a["pads"], a["output_padding"]
    full = np.zeros((n, c, (h - 1) * sh + kh + oh, (width - 1) * sw + kw + ow), x.dtype)
    for i in range(h):
        for j in range(width):
            full[:, :, i * sh:i * sh + kh, j * sw:j * sw + kw] += np.einsum(
                "nm,mcij->ncij", x[:, :, i, j], w)
    return full[:, :, top:full.shape[2] - bottom, left:full.shape[3] - right]


def average_pool(a, x):
    view = windows(padded(x, a["pads"], 0), a["kernel_shape"], a["strides"])
    if a["count_include_pad"]:
        return view.mean((4, 5))
    ones = windows(padded(np.ones_like(x), a["pads"], 0), a["kernel_shape"], a["strides"])
    return view.sum((4, 5)) / ones.sum((4, 5))


def batch_norm(a, x, scale, bias, mean, variance):
    c = (slice(None), None, None)
    return (x - mean[c]) / np.sqrt(variance[c] + a["epsilon"]) * scale[c] + bias[c]


def softmax(a, x):
    flat = x.reshape(int(np.prod(x.shape[:a["axis"]])), -1)
    e = np.exp(flat - flat.max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).reshape(x.shape)


def reduce(function):
    return lambda a, x: function(x, axis=tuple(a["axes"]) if "axes" in a else None,
                                 keepdims=bool(a["keepdims"]))


def reshape(_, x, shape):
    return x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])


def unsqueeze(a, x):
    for axis in a["axes"]:
        x = np.expand_dims(x, axis)
    return x


def window(_, x, starts, ends, axes):
    cut = [slice(None)] * x.ndim
    for start, end, axis in zip(starts, ends, axes):
        cut[axis] = slice(start, end)
    return x[tuple(cut)]


OPS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": lambda a, x: x.astype(DTYPES[a["to"]]),
    "Clip": lambda a, x, low, high: np.clip(x, low, high),
    "Concat": lambda a, *x: np.concatenate(x, a["axis"]),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Div": lambda a, x, y: x / y,
    "Erf": lambda a, x: np.vectorize(math.erf)(x).astype(x.dtype),
    "Gather": lambda a, x, index: np.take(x, index, a["axis"]),
    "Gemm": lambda a, x, w, b=0: x @ (w.T if a["transB"] else w) + b,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdims=True),
    "GlobalMaxPool": lambda a, x: x.max((2, 3), keepdims=True),
    "Identity": lambda a, x: x,
    "MatMul": lambda a, x, y: x @ y,
    "Max": lambda a, x, y: np.maximum(x, y),
    "MaxPool": lambda a, x: windows(padded(x, a["pads"], -np.inf), a["kernel_shape"],
                                    a["strides"]).max((4, 5)),
    "Mul": lambda a, x, y: x * y,
    "ReduceMax": reduce(np.max),
    "ReduceMean": reduce(np.mean),
    "ReduceSum": reduce(np.sum),
    "Relu": lambda a, x: np.maximum(x, 0),
    "Reshape": reshape,
    "Sigmoid": lambda a, x: 1 / (1 + np.exp(-x)),
    "Slice": window,
    "Softmax": softmax,
    "Split": lambda a, x, parts: np.split(
        x, np.cumsum(a["split"])[:-1] if "split" in a else parts, a["axis"]),
    "Sqrt": lambda a, x: np.sqrt(x),
    "Squeeze": lambda a, x: np.squeeze(x, tuple(a["axes"])),
    "Sub": lambda a, x, y: x - y,
    "Sum": lambda a, *x: sum(x),
    "Tanh": lambda a, x: np.tanh(x),
    "Transpose": lambda a, x: np.transpose(x, a["perm"]),
    "Unsqueeze": unsqueeze,
}


def run(model, inputs):
    """Outputs of `model` by name."""
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer} | inputs
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        given = [values[name] for name in node.input]
        if node.op_type == "Split":
            made = OPS["Split"](attributes, *given, len(node.output))
        else:
            made = [OPS[node.op_type](attributes, *given)]
        values.update(zip(node.output, made))
    return {output.name: values[output.name] for output in model.graph.output}
