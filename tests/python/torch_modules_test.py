"""tandem.torch.from_torch: modules of PyTorch become programs that train like the modules, and the
trained values go back into the modules."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from unittest import mock

import script

script.need_modules("numpy", "torch", "onnx", package="python3-torch, python3-onnx")
# pylint: disable=wrong-import-position
import numpy
import torch
from torch import nn
import tandem_case  # pylint: disable=unused-import
import tandem
import tandem.torch

BATCH, CLASSES, STEPS = 8, 4, 20
TOLERANCE = 1e-5
DATA = {
    "vector": lambda: torch.randn(BATCH, 12),
    "image": lambda: torch.randn(BATCH, 3, 8, 8),
    "sequence": lambda: torch.randn(BATCH, 5, 16),
    "ids": lambda: torch.randint(0, 50, (BATCH, 5)),
}


class Part(nn.Module):
    """A module with a function for its forward pass."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._call = forward

    def forward(self, x):
        return self._call(self, x)


class Scaled(nn.Module):
    """A module with a buffer of floats, which a training does not change."""

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.linspace(0.5, 2, 12))
        self.register_buffer("more", torch.linspace(-1, 1, 12), persistent=False)
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x):
        return self.head(x * self.factor + self.more)


def residual():
    body = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3))
    return Part(lambda m, x: m.head(torch.relu(m.body(x) + x)), body=body,
                head=nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, CLASSES)))


def recurrent(kind, **arguments):
    width = 10 * (2 if arguments.get("bidirectional") else 1)
    return Part(lambda m, x: m.head(m.rnn(x)[0][:, -1]), rnn=kind(16, 10, batch_first=True, **arguments),
                head=nn.Linear(width, CLASSES))


MODULES = {
    "linear": ("vector", lambda: nn.Linear(12, CLASSES)),
    "mlp": ("vector", lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, CLASSES))),
    "mlp without biases": ("vector", lambda: nn.Sequential(
        nn.Linear(12, 16, bias=False), nn.Tanh(), nn.Linear(16, CLASSES, bias=False))),
    "sigmoid and batch norm": ("vector", lambda: nn.Sequential(
        nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Sigmoid(), nn.Linear(16, CLASSES))),
    "leaky relu": ("vector", lambda: nn.Sequential(
        nn.Linear(12, 16), nn.LeakyReLU(0.1), nn.Linear(16, CLASSES))),
    "silu": ("vector", lambda: nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Linear(16, CLASSES))),
    "lenet": ("image", lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(32, CLASSES))),
    "conv and batch norm": ("image", lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AvgPool2d(3), nn.Flatten(), nn.Linear(8, CLASSES))),
    "depthwise": ("image", lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, groups=3), nn.ReLU6(), nn.Conv2d(6, 4, 1), nn.Flatten(),
        nn.Linear(144, CLASSES))),
    "residual": ("image", residual),
    "pads of three kinds": ("image", lambda: nn.Sequential(
        nn.ZeroPad2d((1, 0, 2, 0)), nn.Conv2d(3, 4, 3), nn.ReplicationPad2d(1), nn.Tanh(),
        nn.ConstantPad2d((0, 1, 0, 1), 0.5), nn.Flatten(), nn.Linear(440, CLASSES))),
    "infinities around an image": ("image", lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ConstantPad2d(1, -numpy.inf), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, CLASSES))),
    "repeated numbers": ("vector", lambda: Part(
        lambda m, x: m.head(m.body(x).repeat(1, 3)), body=nn.Linear(12, 5),
        head=nn.Linear(15, CLASSES))),
    "layer norm and gelu": ("sequence", lambda: nn.Sequential(
        nn.Linear(16, 12), nn.GELU(), nn.LayerNorm(12), nn.Flatten(), nn.Linear(60, CLASSES))),
    "encoder layer": ("sequence", lambda: Part(
        lambda m, x: m.head(m.layer(x).mean(1)),
        layer=nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True),
        head=nn.Linear(16, CLASSES))),
    "attention": ("sequence", lambda: Part(
        lambda m, x: m.head(m.attention(x, x, x, need_weights=False)[0].mean(1)),
        attention=nn.MultiheadAttention(16, 4, batch_first=True), head=nn.Linear(16, CLASSES))),
    "lstm": ("sequence", lambda: recurrent(nn.LSTM)),
    "two lstm layers": ("sequence", lambda: recurrent(nn.LSTM, num_layers=2)),
    "lstm in both directions": ("sequence", lambda: recurrent(nn.LSTM, bidirectional=True)),
    "gru": ("sequence", lambda: recurrent(nn.GRU)),
    "embedding": ("ids", lambda: Part(
        lambda m, x: m.head(m.table(x).mean(1)), table=nn.Embedding(50, 8),
        head=nn.Linear(8, CLASSES))),
    "embedding and conv": ("ids", lambda: Part(
        lambda m, x: m.head(torch.relu(m.conv(m.table(x).transpose(1, 2))).amax(2)),
        table=nn.Embedding(50, 8), conv=nn.Conv1d(8, 12, 3), head=nn.Linear(12, CLASSES))),
    "one layer twice": ("vector", lambda: Part(
        lambda m, x: m.head(torch.tanh(m.body(torch.tanh(m.body(x))))), body=nn.Linear(12, 12),
        head=nn.Linear(12, CLASSES))),
    "shared table": ("ids", lambda: Part(
        lambda m, x: m.head(nn.functional.linear(m.table(x).mean(1), m.table.weight)),
        table=nn.Embedding(50, 8), head=nn.Linear(50, CLASSES))),
    "shared table and a factor of float64": ("ids", lambda: Part(
        lambda m, x: m.head(nn.functional.linear(
            m.table(x).mean(1) * torch.sqrt(torch.tensor(0.9, dtype=torch.float64)), m.table.weight)),
        table=nn.Embedding(50, 8), head=nn.Linear(50, CLASSES))),
    "scaled weights": ("vector", lambda: Part(
        lambda m, x: m.head(torch.tanh(nn.functional.linear(x, m.w.weight * 2))),
        w=nn.Linear(12, 5, bias=False), head=nn.Linear(5, CLASSES))),
    "one number": ("vector", lambda: Part(
        lambda m, x: m.head(x * m.s), s=nn.Parameter(torch.full((1,), 0.37)),
        head=nn.Linear(12, CLASSES))),
    "a number without dimensions": ("vector", lambda: Part(
        lambda m, x: m.head(x * m.s), s=nn.Parameter(torch.tensor(0.37)),
        head=nn.Linear(12, CLASSES))),
    "bounded number": ("vector", lambda: Part(
        lambda m, x: m.head(x) * torch.tanh(m.s), s=nn.Parameter(torch.tensor(0.37)),
        head=nn.Linear(12, CLASSES))),
    "bounded number of a list": ("vector", lambda: Part(
        lambda m, x: m.head(x) * torch.tanh(m.s[1]), s=nn.Parameter(torch.tensor([0.2, 0.4])),
        head=nn.Linear(12, CLASSES))),
    "sums with two numbers": ("vector", lambda: Part(
        lambda m, x: (m.a + m.b - m.head(x)) * m.b, a=nn.Parameter(torch.tensor(0.37)),
        b=nn.Parameter(torch.tensor(1.5)), head=nn.Linear(12, CLASSES))),
    "positive weights": ("vector", lambda: Part(
        lambda m, x: m.head(x * torch.maximum(m.w, torch.zeros(12))),
        w=nn.Parameter(torch.randn(12)), head=nn.Linear(12, CLASSES))),
    "one and a weight": ("vector", lambda: Part(
        lambda m, x: m.head(x * (1 + m.w)), w=nn.Parameter(torch.randn(12)),
        head=nn.Linear(12, CLASSES))),
    "a matrix and its transposed form": ("vector", lambda: Part(
        lambda m, x: m.head(x @ m.b.T @ m.b), b=nn.Parameter(torch.randn(12, 12) / 4),
        head=nn.Linear(12, CLASSES))),
    "rows by a constant": ("vector", lambda: Part(
        lambda m, x: m.head(x + m.table.weight[m.rows].reshape(1, 12)),
        table=nn.Embedding(3, 4), rows=torch.tensor([2, 0, 2]), head=nn.Linear(12, CLASSES))),
    "constant buffer": ("vector", lambda: Scaled()),
    "dropout of nothing": ("vector", lambda: nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, CLASSES))),
}


class Modules(unittest.TestCase):
    def trains_alike(self, data, module, kind=""):
        """Trains the module and its program, and compares losses and values."""
        torch.manual_seed(11)
        batches = [DATA[data]() for _ in range(STEPS)]
        labels = [torch.randint(0, CLASSES, (BATCH,)) for _ in range(STEPS)]
        scope = tandem.Scope()
        converted = tandem.torch.from_torch(module, batches[0], scope=scope)
        before = module.state_dict()
        for name, value in converted.state_dict(scope).items():
            self.assertTrue(torch.equal(value, before[name]), name)
        program = converted.program
        with tandem.program_guard(program):
            label = tandem.data("label", [None, 1], "i64")
            loss = tandem.layers.softmax_loss(converted.output, label)
            tandem.optimizer.Momentum(0.05, 0.9).minimize(loss)
        exe = tandem.Executor()
        exe.run(converted.startup(), scope=scope)
        module.train()
        optimizer = torch.optim.SGD(module.parameters(), 0.05, 0.9)
        for x, y in zip(batches, labels):
            mine, = exe.run(program, {converted.inputs[0].name: x.numpy(),
                                      "label": y.numpy().reshape(-1, 1)}, [loss], scope=scope)
            optimizer.zero_grad()
            theirs = nn.functional.cross_entropy(module(x), y)
            theirs.backward()
            optimizer.step()
            self.assertAlmostEqual(float(mine.reshape(())), theirs.item(),
                                   delta=TOLERANCE * max(1, theirs.item()))
        trained = converted.state_dict(scope)
        after = module.state_dict()
        self.assertEqual(list(sorted(trained)), sorted(after))
        for name, value in after.items():
            if name.endswith("num_batches_tracked"):
                continue
            if name.endswith("running_var"):
                # The variance over n elements; PyTorch's running variance is that over n - 1.
                n = BATCH * {"sigmoid and batch norm": 1, "conv and batch norm": 9, "residual": 64}[kind]
                share = 1 - 0.9 ** STEPS
                value = (value - 1 + share) * (n - 1) / n + 1 - share
            numpy.testing.assert_allclose(trained[name].numpy(), value.numpy(), rtol=1e-3, atol=1e-4,
                                          err_msg=name)
        module.load_state_dict(trained)
        return converted, scope

    def test_ordinary_modules_train_like_pytorch(self):
        for name, (data, make) in MODULES.items():
            with self.subTest(name):
                torch.manual_seed(3)
                self.trains_alike(data, make(), name)

    def test_frozen_parameters_stay(self):
        for name, parts in (("lenet", "03"), ("residual", ("body",)), ("two lstm layers", ("rnn",)),
                            ("embedding", ("table",)), ("encoder layer", ("layer",)),
                            ("attention", ("attention.out_proj",)),
                            ("sigmoid and batch norm", "1"), ("shared table", ("table",)),
                            ("one number", ("s",)), ("a number without dimensions", ("s",)),
                            ("bounded number", ("s",)), ("positive weights", ("w",)),
                            ("sums with two numbers", ("b",)), ("one and a weight", ("w",)),
                            ("scaled weights", ("w",)),
                            ("a matrix and its transposed form", ("b",))):
            with self.subTest(name):
                torch.manual_seed(3)
                data, make = MODULES[name]
                module = make()
                for part in parts:
                    value = getattr(module, part, None)
                    if not isinstance(value, nn.Parameter):
                        value = module.get_submodule(part)
                    value.requires_grad_(False)
                before = {key: p.detach().clone() for key, p in module.named_parameters()
                          if not p.requires_grad}
                converted, scope = self.trains_alike(data, module, name)
                after = converted.state_dict(scope)
                for key, value in before.items():
                    self.assertTrue(torch.equal(after[key], value), key)
                module.get_parameter(next(iter(before))).data.add_(1)
                converted.load_state_dict(module.state_dict(), scope)
                again = converted.state_dict(scope)
                for key, value in module.named_parameters():
                    self.assertTrue(torch.equal(again[key], value.detach()), key)

    def test_half_of_a_frozen_bias_is_refused(self):
        module = MODULES["lstm"][1]()
        module.rnn.bias_hh_l0.requires_grad_(False)
        with self.assertRaisesRegex(tandem.errors.UnimplementedError,
                                    'the program joins "rnn.bias_hh_l0", which is frozen, and a trained '
                                    r"parameter in .* \[TD7015\]; hint: freeze both, or none"):
            tandem.torch.from_torch(module, DATA["sequence"](), scope=tandem.Scope())
        self.assertFalse(module.rnn.bias_hh_l0.requires_grad)

    def test_frozen_and_trained_parameters_may_be_joined(self):
        weight = lambda m: torch.cat([m.a.weight, m.b.weight])
        module = Part(lambda m, x: m.head(torch.tanh(nn.functional.linear(x, weight(m)))),
                      a=nn.Linear(12, 3, bias=False), b=nn.Linear(12, 5, bias=False),
                      head=nn.Linear(8, CLASSES))
        module.a.requires_grad_(False)
        converted, scope = self.trains_alike("vector", module)
        self.assertFalse(module.a.weight.requires_grad)
        self.assertTrue(torch.equal(converted.state_dict(scope)["a.weight"], module.a.weight))

    def test_the_program_of_the_guide_runs(self):
        page = os.path.join(script.SOURCE, "docs/guides/pytorch-modules.md")
        with open(page, encoding="utf-8") as file:
            program, = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(program, page, "exec"), {})  # pylint: disable=exec-used
        self.assertLess(float(printed.getvalue().split()[-1]), 0.3)

    def test_a_state_goes_in_again(self):
        module = MODULES["lstm"][1]()
        x, scope = DATA["sequence"](), tandem.Scope()
        converted = tandem.torch.from_torch(module, x, scope=scope)
        other = MODULES["lstm"][1]()
        converted.load_state_dict(other.state_dict(), scope)
        mine, = tandem.Executor().run(converted.program, {"x": x.numpy()}, [converted.output],
                                      scope=scope)
        numpy.testing.assert_allclose(mine, other(x).detach().numpy(), rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(tandem.errors.NotFoundError, 'the state lacks "head.weight"'):
            converted.load_state_dict(other.rnn.state_dict(prefix="rnn."), scope)

    def test_a_table_has_both_of_its_names(self):
        module = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(40, 8), nn.Linear(8, 50))
        module[3].weight = module[0].weight
        ids = torch.randint(0, 50, (4, 5))
        scope = tandem.Scope()
        converted = tandem.torch.from_torch(module, ids, loss="softmax", scope=scope)
        with tandem.program_guard(converted.program):
            tandem.optimizer.SGD(0.5).minimize(converted.program.loss)
        exe = tandem.Executor()
        exe.run(converted.startup(), scope=scope)
        exe.run(converted.program, {"x": ids.numpy(), "label": ids[:, :1].numpy()}, scope=scope)
        state = converted.state_dict(scope)
        self.assertTrue(torch.equal(state["0.weight"], state["3.weight"]))
        self.assertFalse(torch.equal(state["0.weight"], module.state_dict()["0.weight"]))

    def test_a_converted_program_is_saved_and_read(self):
        torch.manual_seed(3)
        converted, scope = self.trains_alike(*[(d, m()) for d, m in [MODULES["mlp"]]][0])
        x = torch.randn(5, 12)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlp.onnx")
            tandem.onnx.save(path, [converted.output], converted.program, scope)
            self.assertEqual(os.listdir(folder), ["mlp.onnx"])
            again = tandem.Scope()
            read = tandem.onnx.load(path, scope=again)
            mine, = tandem.Executor().run(read.program, {"x": x.numpy()}, [read.output], scope=again)
        reference = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, CLASSES))
        reference.load_state_dict(converted.state_dict(scope))
        numpy.testing.assert_allclose(mine, reference(x).detach().numpy(), rtol=1e-5, atol=1e-6)

    def test_a_loss_may_be_part_of_the_conversion(self):
        module = nn.Sequential(nn.Linear(12, CLASSES), nn.Softmax(1))
        converted = tandem.torch.from_torch(module, torch.randn(2, 12), loss="softmax",
                                            input_names=["pixels"], scope=tandem.Scope())
        self.assertEqual([v.name for v in converted.inputs], ["pixels"])
        self.assertIsNotNone(converted.program.loss)
        self.assertIn("omitted", " ".join(converted.notes))

    def test_the_module_stays_as_it_was(self):
        module = MODULES["conv and batch norm"][1]()
        module.train()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        tandem.torch.from_torch(module, DATA["image"](), scope=tandem.Scope())
        self.assertTrue(module.training)
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_numbers_of_large_modules_have_two_digits(self):
        with mock.patch.multiple(tandem.torch.modules, _EXACT=100, _PART=37):
            self.trains_alike("sequence", recurrent(nn.LSTM))

    def test_a_program_with_another_output_is_refused(self):
        module = Part(lambda m, x: m.head(x * m.s.item()), s=nn.Parameter(torch.tensor(0.37)),
                      head=nn.Linear(12, CLASSES))
        for loss in ("none", "softmax"):
            with self.assertRaisesRegex(tandem.errors.UnimplementedError,
                                        r"the output of the program for the example differs by [0-9.]+ "
                                        r"from that of the module, whose .* is [0-9.]+ \[TD7015\]; hint"):
                tandem.torch.from_torch(module, torch.randn(4, 12), loss, scope=tandem.Scope())

    def test_modules_that_do_not_fit_are_refused(self):
        refused = [
            (nn.Linear(12, 4).double(), torch.randn(2, 12).double(), tandem.errors.InvalidArgumentError,
             r'"weight" of the module is torch.float64 on cpu'),
            (nn.utils.weight_norm(nn.Linear(12, 4)), torch.randn(2, 12),
             tandem.errors.UnimplementedError, "computes .* from its parameters"),
            (nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(3, 4, 3)), torch.randn(2, 3, 8, 8),
             tandem.errors.UnimplementedError, "the module: node"),
            (Part(lambda m, x: torch.fft.rfft(x).real), torch.randn(2, 12), Exception, "fft"),
            (Part(lambda m, x: torch.topk(x, 2, 1)[0]), torch.randn(2, 12),
             tandem.errors.UnimplementedError, "TopK"),
        ]
        for module, x, kind, text in refused:
            with self.assertRaisesRegex(kind, text):
                tandem.torch.from_torch(module, x, scope=tandem.Scope())
        with self.assertRaisesRegex(tandem.errors.InvalidArgumentError, "2 names for 1 inputs"):
            tandem.torch.from_torch(nn.Linear(2, 2), torch.randn(2, 2), input_names=["a", "b"])
        with self.assertRaisesRegex(tandem.errors.DataLossError, "is not an ONNX model"):
            tandem.onnx.read(b"nothing of the kind")
        with self.assertRaisesRegex(tandem.errors.FileMissingError, "none.onnx"):
            tandem.onnx.load("none.onnx")


if __name__ == "__main__":
    script.main()
