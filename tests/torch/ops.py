"""Every operator that PyTorch has too: results and gradients on random shapes.

For each case a program of one operator and a weighted mean of its result is written, run by
tests/torch/program_run.cc, and compared with PyTorch in f64: differences of at most 1e-5 of the
largest element. Every operator whose gradient docs/reference/operators.md lists must have a row
here.
With --half the operators that amp runs in 16 bits, as its pass rewrites them for bf16: 2e-2, on
numbers whose sums do not cancel and where the saved result of sigmoid and tanh is not near 1, since
one rounding to 8 bits may be all of such a gradient.

usage: ops.py --build=DIR [--seed=1] [--only=op,...] [--rounds=8] [--half]
Exit codes: 0 equal, 1 not equal, 77 torch is missing.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

EXIT_SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(EXIT_SKIPPED)

import safetensors_io
from op_program import Written

DICE = random.Random()
RNG = None
HALF = False


class Case:
    """One operator: `slots` are [(slot, array or list of arrays)], `want` computes the results by
    output slot from tensors by slot (lists where a list was given). Gradients are compared for the
    slots in `params`, through the first result."""

    def __init__(self, slots, want, attrs=None, params=(), many=None, state=None):
        self.slots, self.want, self.attrs = slots, want, attrs or {}
        self.params, self.many = params, many or {}
        self.state = state or {}  # output slot -> input slot it shares the variable with


def dim(low=1, high=9):
    return DICE.randint(low, high)


def shape(low=1, high=4):
    return tuple(dim() for _ in range(DICE.randint(low, high)))


def real(dims, low=-1.0, high=1.0):
    return RNG.uniform(low, high, dims).astype(np.float32)


def positive(dims):
    return real(dims, 0.25, 1.0)


def bent(reach):
    """For a sigmoid or tanh whose interesting part is [-reach, reach]."""
    return lambda dims: real(dims, -1.5, 1.5) if HALF else real(dims, -reach, reach)


def apart(dims):
    """No two alike, so that the largest stays the largest."""
    n = int(np.prod(dims))
    if HALF:  # one of the 2048 values of bf16 from 2^-8 to 1
        bits = RNG.permutation(2048)[:n].astype(np.uint32)
        sign, rest = (bits & 1) << 31, (bits >> 1) + 0x3b80
        return (sign | rest << 16).view(np.float32).reshape(dims)
    return (RNG.permutation(n) / max(n, 1) * 2 - 1).astype(np.float32).reshape(dims)


def nonzero(dims):
    x = real(dims, 0.2, 1.0)
    return np.where(RNG.uniform(size=dims) < 0.5, -x, x).astype(np.float32)


def unary(function, draw=real, **attrs):
    return lambda: Case([("X", draw(shape()))], lambda t: {"Out": function(t["X"])}, attrs, ("X",))


def grid(dims):
    return (RNG.integers(-64, 64, dims) / 64).astype(np.float32)


def between(dims):
    """Never what grid() gives."""
    return grid(dims) + np.float32(1 / 128)


def pair(function, draw=real, draw_x=None):
    def make():
        draw_left = draw_x or (positive if HALF else real)
        x = shape()
        begin = DICE.randint(0, len(x) - 1)
        end = DICE.randint(begin + 1, len(x))
        tail = (1,) * (len(x) - end)
        return Case([("X", draw_left(x)), ("Y", draw(x[begin:end]))],
                    lambda t: {"Out": function(t["X"], t["Y"].reshape(t["Y"].shape + tail))},
                    {"axis": begin}, ("X", "Y"))
    return make


def fused_add():
    x = shape()
    kind = DICE.choice(["relu,elementwise_add", "elementwise_add,relu", "scale,elementwise_add"])
    outer = {"relu": F.relu, "scale": lambda v: 0.5 * v}
    first, second = kind.split(",")
    def want(t):
        if second == "elementwise_add":
            return {"Out": outer[first](t["X"] + t["Y"])}
        return {"Out": t["X"] + outer[second](t["Y"])}
    return Case([("X", real(x)), ("Y", nonzero(x))], want, {"functors": kind, "scale": 0.5},
                ("X", "Y"))


def gelu():
    approximate = DICE.random() < 0.5
    function = lambda x: F.gelu(x, approximate="tanh" if approximate else "none")
    return Case([("X", real(shape(), -4, 4))], lambda t: {"Out": function(t["X"])},
                {"approximate": approximate}, ("X",))


def softmax():
    x, causal = shape(2, 4), DICE.random() < 0.5
    if causal:
        x = x[:-1] + (x[-2] + dim() - 1,)
    def want(t):
        v = t["X"]
        if causal:
            keep = torch.ones(x[-2:], dtype=torch.bool).tril(x[-1] - x[-2])
            v = v.masked_fill(~keep, float("-inf"))
        return {"Out": F.softmax(v, -1)}
    return Case([("X", real(x, -4, 4))], want, {"causal": causal}, ("X",))


def dropout():
    """In evaluation; what is dropped in training no other library draws."""
    return Case([("X", real(shape())), ("Position", np.zeros(4, dtype=np.int64))],
                lambda t: {"Out": t["X"]}, {"is_test": True, "dropout_prob": 0.5}, ("X",))


def layer_norm():
    x = shape(2, 4)[:-1] + (dim(4, 40),)
    axis = DICE.randint(0, len(x) - 1)
    n = int(np.prod(x[axis:]))
    def want(t):
        y = F.layer_norm(t["X"], x[axis:], t["Scale"].reshape(x[axis:]),
                         t["Bias"].reshape(x[axis:]), 1e-3)
        rows = t["X"].reshape(-1, n)
        return {"Y": y, "Mean": rows.mean(1), "Variance": rows.var(1, unbiased=False)}
    return Case([("X", real(x)), ("Scale", real((n,))), ("Bias", real((n,)))], want,
                {"begin_norm_axis": axis, "epsilon": 1e-3}, ("X", "Scale", "Bias"))


def batch_norm(fused=False):
    def make():
        x, test = (dim(2), dim(), dim(2), dim(2)), DICE.random() < 0.3
        c = (x[1],)
        slots = [("X", real(x)), ("Scale", real(c, 0.5, 1.5)), ("Bias", real(c)),
                 ("Mean", real(c)), ("Variance", real(c, 0.5, 1.5))]
        if fused:
            slots.append(("Z", real(x)))
        def want(t):
            over = (0, 2, 3)
            mean = t["Mean"] if test else t["X"].mean(over)
            var = t["Variance"] if test else t["X"].var(over, unbiased=False)
            wide = lambda v: v.reshape(1, -1, 1, 1)
            y = (t["X"] - wide(mean)) / torch.sqrt(wide(var) + 1e-5) * wide(t["Scale"])
            y = y + wide(t["Bias"])
            if fused:
                y = F.relu(y + t["Z"])
            keep = 1.0 if test else 0.8
            return {"Y": y, "MeanOut": keep * t["Mean"] + (1 - keep) * mean,
                    "VarianceOut": keep * t["Variance"] + (1 - keep) * var}
        return Case(slots, want, {"is_test": test, "momentum": 0.8, "epsilon": 1e-5},
                    ("X", "Scale", "Bias") + (("Z",) if fused else ()),
                    state={"MeanOut": "Mean", "VarianceOut": "Variance"})
    return make


def matmul():
    batch = shape(1, 2) if DICE.random() < 0.7 else ()
    m, n, k = dim(1, 40), dim(1, 40), dim(1, 40)
    tx, ty = DICE.random() < 0.5, DICE.random() < 0.5
    def want(t):
        x = t["X"].transpose(-1, -2) if tx else t["X"]
        y = t["Y"].transpose(-1, -2) if ty else t["Y"]
        return {"Out": 0.7 * (x @ y)}
    return Case([("X", real(batch + ((k, m) if tx else (m, k)))),
                 ("Y", real(batch + ((n, k) if ty else (k, n))))], want,
                {"trans_x": tx, "trans_y": ty, "alpha": 0.7}, ("X", "Y"))


def attention():
    batch = shape(1, 2) if DICE.random() < 0.7 else ()
    t, d, e = dim(1, 90), dim(1, 20), dim(1, 20)
    s, causal = t + dim(0, 90), DICE.random() < 0.5
    packed = DICE.random() < 0.4 and not HALF
    def want(q, k, v):
        scores = 0.4 * (q @ k.transpose(-1, -2))
        if causal:
            keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
            scores = scores.masked_fill(~keep, float("-inf"))
        return F.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)
    attrs = {"causal": causal, "alpha": 0.4}
    if packed:
        def want_packed(t):
            out, sums = want(*t["Q"].permute(2, 0, 3, 1, 4))
            return {"Out": out.transpose(1, 2), "LogSum": sums}
        return Case([("Q", real((dim(1, 3), t, 3, dim(1, 4), d)))], want_packed, attrs, ("Q",))
    def want_separate(t):
        out, sums = want(t["Q"], t["K"], t["V"])
        return {"Out": out, "LogSum": sums}
    params = ("V",) if HALF else ("Q", "K", "V")  # the gradients of Q and K are differences
    return Case([("Q", real(batch + (t, d))), ("K", real(batch + (s, d))),
                 ("V", real(batch + (s, e)))], want_separate, attrs, params)


def fc():
    m, n, k = dim(1, 60), dim(1, 60), dim(1, 60)
    return Case([("Input", real((m, k))), ("W", real((k, n))), ("Bias", real((n,)))],
                lambda t: {"Out": t["Input"] @ t["W"] + t["Bias"]}, {}, ("Input", "W", "Bias"))


def conv2d():
    groups = DICE.choice([1, 1, 2, 3])
    c, m = groups * dim(1, 5), groups * dim(1, 5)
    kernel, stride, pad = (dim(1, 3), dim(1, 3)), (dim(1, 2), dim(1, 2)), (dim(0, 1), dim(0, 1))
    x = (dim(1, 3), c, kernel[0] + dim(1, 9), kernel[1] + dim(1, 9))
    def want(t):
        return {"Output": F.conv2d(t["Input"], t["Filter"], t["Bias"], stride, pad, 1, groups)}
    return Case([("Input", real(x)), ("Filter", real((m, c // groups) + kernel)),
                 ("Bias", real((m,)))], want,
                {"strides": stride, "paddings": pad, "groups": groups},
                ("Input", "Filter", "Bias"))


def conv2d_transpose():
    groups = DICE.choice([1, 1, 2])
    m, c = groups * dim(1, 5), groups * dim(1, 5)
    kernel, stride, pad = (dim(1, 3), dim(1, 3)), (dim(1, 2), dim(1, 2)), (0, dim(0, 1))
    more = tuple(dim(0, s - 1) for s in stride)
    def want(t):
        return {"Output": F.conv_transpose2d(t["Input"], t["Filter"], None, stride, pad, more,
                                             groups)}
    return Case([("Input", real((dim(1, 3), m, dim(3), dim(3)))),
                 ("Filter", real((m, c // groups) + kernel))], want,
                {"strides": stride, "paddings": pad, "output_padding": more, "groups": groups},
                ("Input", "Filter"))


def pool2d():
    kernel = (dim(1, 3), dim(1, 3))
    stride, pad = (dim(1, 2), dim(1, 2)), tuple(dim(0, 1) if k > 1 else 0 for k in kernel)
    x = (dim(1, 3), dim(1, 4), kernel[0] + dim(1, 9), kernel[1] + dim(1, 9))
    kind, exclusive = DICE.choice(["max", "avg"]), DICE.random() < 0.5
    def want(t):
        if kind == "max":
            return {"Out": F.max_pool2d(t["X"], kernel, stride, pad)}
        return {"Out": F.avg_pool2d(t["X"], kernel, stride, pad,
                                    count_include_pad=not exclusive)}
    return Case([("X", apart(x))], want,
                {"pooling_type": kind, "ksize": kernel, "strides": stride, "paddings": pad,
                 "exclusive": exclusive}, ("X",))


def lookup_table():
    rows, width, sparse = dim(2), dim(), DICE.random() < 0.5
    padding = DICE.choice([-1, 0])
    ids = RNG.integers(0, rows, (dim(), dim(2, 5)))
    def want(t):
        # The padding of F.embedding changes only the gradient; Tandem's result is 0 there too.
        mask = (torch.from_numpy(ids) != padding)[..., None]
        return {"Out": F.embedding(torch.from_numpy(ids), t["W"]) * mask}
    return Case([("Ids", ids), ("W", real((rows, width)))], want,
                {"is_sparse": sparse, "padding_idx": padding, "squeeze_last": False}, ("W",))


def sequence_pool():
    b, t_max, d = dim(), dim(), dim()
    kind = DICE.choice(["sum", "average", "sqrt", "max", "first", "last"])
    lengths = RNG.integers(1, t_max + 1, (b,))
    def want(t):
        rows = []
        for i, n in enumerate(lengths):
            x = t["X"][i, :n]
            rows.append({"sum": lambda: x.sum(0), "average": lambda: x.mean(0),
                         "sqrt": lambda: x.sum(0) / float(n) ** 0.5, "max": lambda: x.amax(0),
                         "first": lambda: x[0], "last": lambda: x[-1]}[kind]())
        return {"Out": torch.stack(rows)}
    return Case([("X", apart((b, t_max, d))), ("Lengths", lengths)], want, {"pooltype": kind},
                ("X",))


def transpose():
    x = shape(1, 5)
    order = DICE.sample(range(len(x)), len(x))
    return Case([("X", real(x))], lambda t: {"Out": t["X"].permute(order)}, {"axis": order}, ("X",))


def concat():
    x = shape()
    axis = DICE.randint(0, len(x) - 1)
    parts = [real(x[:axis] + (dim(),) + x[axis + 1:]) for _ in range(dim(1, 4))]
    return Case([("X", parts)], lambda t: {"Out": torch.cat(t["X"], axis)}, {"axis": axis}, ("X",))


def split():
    x, n = shape(), dim(1, 4)
    axis = DICE.randint(0, len(x) - 1)
    sections = [dim() for _ in range(n)]
    x = x[:axis] + (sum(sections),) + x[axis + 1:]
    return Case([("X", real(x))], lambda t: {"Out": list(torch.split(t["X"], sections, axis))},
                {"axis": axis, "sections": sections}, ("X",), {"Out": n})


def slice_():
    x = shape()
    axis = DICE.randint(0, len(x) - 1)
    begin = DICE.randint(0, x[axis] - 1)
    end = DICE.randint(begin + 1, x[axis])
    return Case([("X", real(x))], lambda t: {"Out": t["X"].narrow(axis, begin, end - begin)},
                {"axes": [axis], "starts": [begin], "ends": [end]}, ("X",))


def reshape():
    x = shape(2, 4)
    return Case([("X", real(x))], lambda t: {"Out": t["X"].reshape(x[0], -1)}, {"shape": [0, -1]},
                ("X",))


def reduce(function):
    def make():
        x, keep = shape(1, 5), DICE.random() < 0.5
        dims = sorted(DICE.sample(range(len(x)), DICE.randint(1, len(x))))
        def want(t):
            out = function(t["X"], dims, keep)
            return {"Out": out if out.dim() else out.reshape(1)}
        return Case([("X", apart(x))], want, {"dim": dims, "keep_dim": keep}, ("X",))
    return make


def softmax_xent():
    rows, classes, ignore = dim(2, 30), dim(2, 30), DICE.choice([-100, 1])
    label = RNG.integers(0, classes, (rows, 1))
    def want(t):
        loss = F.cross_entropy(t["Logits"], torch.from_numpy(label[:, 0]), reduction="none",
                               ignore_index=ignore)
        return {"Loss": loss[:, None], "Softmax": F.softmax(t["Logits"], 1)}
    return Case([("Logits", real((rows, classes), -4, 4)), ("Label", label)], want,
                {"ignore_index": ignore}, ("Logits",))


def sigmoid_xent():
    x = (dim(), dim())
    label = RNG.integers(0, 2, x)
    def want(t):
        y = torch.from_numpy(label).double()
        return {"Loss": F.binary_cross_entropy_with_logits(t["Logits"], y, reduction="none"),
                "Sigmoid": torch.sigmoid(t["Logits"])}
    return Case([("Logits", real(x, -4, 4)), ("Label", label)], want, {}, ("Logits",))


def regression(loss, **attrs):
    def make():
        x = (dim(), dim())
        label = real(x, -3, 0.5)
        return Case([("X", real(x, 0.6, 3)), ("Label", label)],
                    lambda t: {"Out": loss(t["X"], torch.from_numpy(label).double())}, attrs, ("X",))
    return make


def accuracy():
    rows, classes = dim(2, 30), dim(3, 9)
    k = dim(1, 3)
    label = RNG.integers(0, classes, (rows, 1))
    def want(t):
        hit = (t["Out"].topk(k, 1).indices == torch.from_numpy(label)).any(1)
        return {"Accuracy": hit.double().mean().reshape(1)}
    return Case([("Out", apart((rows, classes))), ("Label", label)], want, {"k": k})


def sum_():
    x = shape()
    return Case([("X", [real(x) for _ in range(dim(1, 5))])],
                lambda t: {"Out": torch.stack(t["X"]).sum(0)}, {}, ("X",))


def clip_by_norm():
    def want(t):
        norm = t["X"].norm()
        return {"Out": t["X"] * min(1.0, 0.5 / float(norm))}
    return Case([("X", real(shape()))], want, {"max_norm": 0.5})


def clip_by_global_norm():
    xs = [real(shape()) for _ in range(dim(1, 4))]
    def want(t):
        norm = torch.sqrt(sum(x.square().sum() for x in t["X"]))
        return {"Out": [x * min(1.0, 0.5 / float(norm)) for x in t["X"]]}
    return Case([("X", xs)], want, {"max_norm": 0.5}, (), {"Out": len(xs)})


def mean_of(x):
    return x.mean().reshape(1)


CASES = {
    "accuracy": accuracy,
    "batch_norm": batch_norm(),
    "cast": unary(lambda x: x, out_dtype="f32"),
    "clip": unary(lambda x: x.clamp(-0.25, 0.5), min=-0.25, max=0.5),
    "clip_by_global_norm": clip_by_global_norm,
    "clip_by_norm": clip_by_norm,
    "concat": concat,
    "conv2d": conv2d,
    "conv2d_transpose": conv2d_transpose,
    "dropout": dropout,
    "elementwise_add": pair(torch.add),
    "elementwise_div": pair(torch.div, nonzero),
    "elementwise_max": pair(torch.maximum, between, grid),
    "elementwise_mul": pair(torch.mul),
    "elementwise_sub": pair(torch.sub),
    "fc": fc,
    "fused_attention": attention,
    "fused_bn_add_activation": batch_norm(fused=True),
    "fused_elemwise_activation": fused_add,
    "gelu": gelu,
    "huber_loss": regression(lambda x, y: F.huber_loss(x, y, reduction="none", delta=0.75),
                             delta=0.75),
    "l1_loss": regression(lambda x, y: F.l1_loss(x, y, reduction="none")),
    "layer_norm": layer_norm,
    "lookup_table": lookup_table,
    "matmul": matmul,
    "mean": unary(mean_of),
    "pool2d": pool2d,
    "reduce_max": reduce(lambda x, d, keep: x.amax(d, keep)),
    "reduce_mean": reduce(lambda x, d, keep: x.mean(d, keep)),
    "reduce_sum": reduce(lambda x, d, keep: x.sum(d, keep)),
    "relu": unary(F.relu, nonzero),
    "reshape": reshape,
    "scale": unary(lambda x: 0.3 * x + 0.2, scale=0.3, bias=0.2),
    "sequence_pool": sequence_pool,
    "sigmoid": unary(torch.sigmoid, bent(6)),
    "sigmoid_cross_entropy": sigmoid_xent,
    "slice": slice_,
    "softmax": softmax,
    "softmax_with_cross_entropy": softmax_xent,
    "split": split,
    "square_error_cost": regression(lambda x, y: F.mse_loss(x, y, reduction="none")),
    "sum": sum_,
    "tanh": unary(torch.tanh, bent(3)),
    "transpose": transpose,
}


def documented(gradient=r"\w+"):
    """The operators of docs/reference/operators.md, all or those with a gradient."""
    with open(os.path.join(ROOT, "docs", "reference", "operators.md"), encoding="utf-8") as page:
        return re.findall(rf"^\| (\w+) \|[^|]*\|[^|]*\| {gradient} \|", page.read(), re.M)


def uncovered():
    """Operators with a gradient that have no row above."""
    return [op for op in documented("yes") if op not in CASES]


def halved():
    """The operators that amp runs in 16 bits."""
    path = os.path.join(ROOT, "kernels", "graph", "passes", "amp.cc")
    with open(path, encoding="utf-8") as source:
        return re.findall(r'^    {"(\w+)", List::k(?:White|Gray)', source.read(), re.M)


def output_slots(op):
    with open(os.path.join(ROOT, "docs", "reference", "operators.md"), encoding="utf-8") as page:
        section = re.search(rf"^## {op}$(.*?)(^## |\Z)", page.read(), re.M | re.S).group(1)
    line = re.search(r"^- outputs: (.*)$", section, re.M).group(1)
    return [slot for slot in re.findall(r"(\w+)( \(optional\))?", re.sub(r" \(any number\)", "", line))]


def main():
    global RNG, HALF
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--only")
    args = parser.parse_args()
    HALF = args.half
    ops = halved() if HALF else [op for op in CASES if op in documented()]
    if args.only:
        ops = args.only.split(",")
    if uncovered():
        print("no comparison with PyTorch: " + ", ".join(uncovered()))
        return 1
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        written = []
        for op in ops:
            slots = [name for name, optional in output_slots(op) if not optional]
            for i in range(args.rounds):
                DICE.seed(f"{args.seed} {op} {i}")
                RNG = np.random.default_rng(DICE.getrandbits(32))
                case = Written(op, CASES[op](), i, positive if HALF else real, HALF)
                written.append(case)
                with open(f"{folder}/{case.name}.pbtxt", "w", encoding="utf-8") as file:
                    file.write(case.text(slots))
                safetensors_io.write(f"{folder}/{case.name}.safetensors", case.arrays)
        program = os.path.join(args.build, "tests", "program_run")
        done = subprocess.run([program, folder] + ["--half"] * HALF, capture_output=True, text=True, timeout=300,
                              check=False)
        if done.returncode != 0:
            print(done.stderr)
            wrong += 1
        for case in written:
            path = f"{folder}/{case.name}.out.safetensors"
            found = list(case.differences(safetensors_io.read(path))) if os.path.exists(path) else []
            for line in found:
                print(f"{case.name}: {line}\n{case.text([])}")
            wrong += bool(found)
    print(f"{len(written)} cases of {len(ops)} operators, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
