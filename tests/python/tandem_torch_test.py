"""Tables of PyTorch models on parameter servers: the same values as PyTorch's own modules and
optimizers, kills, several trainers, and clear errors."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import script

script.need_modules("numpy", "torch", package="python3-numpy, python3-torch")
# pylint: disable=wrong-import-position
import numpy
import tandem_case as case
import torch
from pserver_process import Servers
from tandem_case import tandem
import tandem.torch

ROWS, DIM, STEPS = 50, 4, 12
TOLERANCE = 1e-6


class Net(torch.nn.Module):
    """A table, and a layer on it."""

    def __init__(self, table):
        super().__init__()
        self.table = table
        self.out = torch.nn.Linear(DIM, 1)

    def forward(self, *inputs, **more):
        out = self.table(*inputs, **more)
        return self.out(out.flatten(1).reshape(out.shape[0], -1, DIM).sum(1))


def twins(server_table, torch_table, optimizer):
    """A model on servers, and one of torch with the same values."""
    torch.manual_seed(3)
    mine, other = Net(server_table), Net(torch_table)
    other.out.load_state_dict(mine.out.state_dict())
    kind, attrs = optimizer
    trained = tandem.torch.Optimizer(mine, kind, lr=0.05, attrs=attrs, servers=SERVERS.addresses,
                                     job="twins", trainer=0, trainers=1)
    with torch.no_grad():
        other.table.weight.copy_(torch.from_numpy(trained.pull("table", numpy.arange(ROWS))))
        if torch_table.padding_idx is not None:
            other.table.weight[torch_table.padding_idx] = 0
    return mine, other, trained


class Twins(unittest.TestCase):
    def setUp(self):
        global SERVERS  # pylint: disable=global-statement
        SERVERS = Servers(script.BUILD, 2, job="twins")
        SERVERS.__enter__()
        self.addCleanup(SERVERS.__exit__)

    def same(self, server_table, torch_table, feed, optimizer=("sgd", None), theirs=None,
             tolerance=TOLERANCE):
        mine, other, trained = twins(server_table, torch_table, optimizer)
        theirs = theirs or (lambda model: [torch.optim.SGD(model.parameters(), lr=0.05)])
        optimizers = theirs(other)
        random = torch.Generator().manual_seed(7)
        for _ in range(STEPS):
            inputs, more = feed(random)
            losses = []
            trained.zero_grad()
            for optimizer_ in optimizers:
                optimizer_.zero_grad()
            for model in (mine, other):
                loss = (model(*inputs, **more) ** 2).mean()
                loss.backward()
                losses.append(loss.item())
            self.assertAlmostEqual(losses[0], losses[1], delta=10 * tolerance)
            trained.step()
            for optimizer_ in optimizers:
                optimizer_.step()
        ids, values = trained.rows("table")
        self.assertGreater(ids.size, 20)
        numpy.testing.assert_allclose(values, other.table.weight.detach().numpy()[ids], rtol=0,
                                      atol=tolerance)
        numpy.testing.assert_allclose(mine.out.weight.detach().numpy(),
                                      other.out.weight.detach().numpy(), rtol=0, atol=tolerance)
        trained.finish()
        return ids

    @staticmethod
    def bags(random):
        ids = torch.randint(0, ROWS, (30,), generator=random)
        return (ids, torch.tensor([0, 4, 4, 11, 25])), {}

    @staticmethod
    def matrix(random):
        return (torch.randint(0, ROWS, (6, 5), generator=random),), {}

    def test_bags_by_offsets_and_by_rows(self):
        for mode in ("sum", "mean", "max"):
            for feed in (self.bags, self.matrix):
                with self.subTest(f"{mode} {feed.__name__}"):
                    self.setUp()
                    self.same(tandem.torch.EmbeddingBag(ROWS, DIM, mode),
                              torch.nn.EmbeddingBag(ROWS, DIM, mode=mode), feed)

    def test_weights_of_samples(self):
        def weighted(random):
            inputs, _ = self.matrix(random)
            return inputs, {"per_sample_weights": torch.rand(6, 5, generator=random)}

        self.same(tandem.torch.EmbeddingBag(ROWS, DIM, "sum"),
                  torch.nn.EmbeddingBag(ROWS, DIM, mode="sum"), weighted)

    def test_the_padding_is_not_trained(self):
        for mode in ("sum", "mean", "max"):
            with self.subTest(mode):
                self.setUp()
                ids = self.same(tandem.torch.EmbeddingBag(ROWS, DIM, mode, padding_idx=3),
                                torch.nn.EmbeddingBag(ROWS, DIM, mode=mode, padding_idx=3),
                                self.matrix)
                self.assertNotIn(3, ids)
        self.setUp()
        ids = self.same(tandem.torch.Embedding(ROWS, DIM, padding_idx=-1),
                        torch.nn.Embedding(ROWS, DIM, padding_idx=ROWS - 1), self.matrix)
        self.assertNotIn(ROWS - 1, ids)

    def test_offsets_with_the_last_one(self):
        def ended(random):
            (ids, offsets), _ = self.bags(random)
            return (ids, torch.cat([offsets, torch.tensor([ids.numel()])])), {}

        self.same(tandem.torch.EmbeddingBag(ROWS, DIM, "mean", include_last_offset=True),
                  torch.nn.EmbeddingBag(ROWS, DIM, mode="mean", include_last_offset=True), ended)

    def test_optimizers(self):
        def adagrad(model):
            return [torch.optim.Adagrad(model.parameters(), lr=0.05, eps=1e-6)]

        def sparse_adam(model):
            # torch.optim.Adam adds eps after the correction of the bias, the servers and SparseAdam
            # before it; with a small eps this makes no difference.
            settings = {"lr": 0.05, "eps": 1e-12,
                        "betas": tuple(float(numpy.float32(beta)) for beta in (0.9, 0.999))}
            return [torch.optim.SparseAdam(model.table.parameters(), **settings),
                    torch.optim.Adam(model.out.parameters(), **settings)]

        self.same(tandem.torch.Embedding(ROWS, DIM), torch.nn.Embedding(ROWS, DIM), self.matrix,
                  ("adagrad", {"epsilon": 1e-6}), adagrad)
        self.setUp()
        # The servers keep the powers of beta as f32, torch as f64. In the first steps 1 - beta2^t is
        # near 0, so the updates differ by up to 1e-5 of their size.
        self.same(tandem.torch.Embedding(ROWS, DIM),
                  torch.nn.Embedding(ROWS, DIM, sparse=True), self.matrix,
                  ("adam", {"lazy_mode": True, "epsilon": 1e-12}), sparse_adam, tolerance=5e-6)

    def test_a_table_that_is_used_twice_in_a_step(self):
        class Twice(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rows = tandem.torch.Embedding(ROWS, DIM)

            def forward(self, first, second):
                return (self.rows(first) * self.rows(second)).sum()

        model = Twice()
        optimizer = tandem.torch.Optimizer(model, lr=0.5, servers=SERVERS.addresses, job="twins",
                                           trainer=0, trainers=1)
        first, second = torch.tensor([1, 2]), torch.tensor([2, 3])
        before = optimizer.pull("rows", numpy.arange(4))
        model(first, second).backward()
        optimizer.step()
        after = optimizer.pull("rows", numpy.arange(4))
        gradient = (before - after) / 0.5
        numpy.testing.assert_allclose(gradient[2], before[1] + before[3], rtol=1e-5)
        numpy.testing.assert_allclose(gradient[1], before[2], rtol=1e-5)
        numpy.testing.assert_array_equal(gradient[0], 0)
        optimizer.finish()

    def test_evaluation_keeps_nothing(self):
        model = Net(tandem.torch.Embedding(ROWS, DIM))
        optimizer = tandem.torch.Optimizer(model, servers=SERVERS.addresses, job="twins",
                                           trainer=0, trainers=1)
        model.eval()
        model(torch.arange(6).reshape(2, 3))
        self.assertEqual(model.table._uses, [])
        optimizer.finish()


class Faults(unittest.TestCase):
    def train(self, kill):
        """Trains with or without kills of both servers. Returns all rows and the layer."""
        with Servers(script.BUILD, 2, "--durability=logged", job="killed") as servers:
            torch.manual_seed(5)
            model = Net(tandem.torch.EmbeddingBag(ROWS, DIM, "sum"))
            optimizer = tandem.torch.Optimizer(model, "adagrad", servers=servers.addresses,
                                               job="killed", trainer=0, trainers=1)
            random = torch.Generator().manual_seed(7)
            for step in range(20):
                optimizer.zero_grad()
                (model(torch.randint(0, ROWS, (6, 5), generator=random)) ** 2).mean().backward()
                if kill and step in (5, 12):
                    servers.kill(step % 2)
                    servers.start(step % 2)
                optimizer.step()
            found = optimizer.rows("table"), optimizer.state()
            optimizer.finish()
            return found

    def test_killed_servers_lose_and_double_nothing(self):
        (ids, values), state = self.train(False)
        (ids_again, values_again), state_again = self.train(True)
        numpy.testing.assert_array_equal(ids, ids_again)
        numpy.testing.assert_array_equal(values, values_again)
        numpy.testing.assert_array_equal(state["out.weight"], state_again["out.weight"])
        self.assertEqual(state["version"], 20)


class Launched(unittest.TestCase):
    """The programs of docs/guides/pytorch.md."""

    def run_program(self, number, more=""):
        """Runs a program of the page on two servers and two trainers. Returns the trainers' output."""
        with open(os.path.join(script.SOURCE, "docs/guides/pytorch.md"), encoding="utf-8") as file:
            program = re.findall(r"```python\n(.*?)```", file.read(), re.S)[number]
        with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(program + more)
            interpreters = os.path.dirname(sys.executable)
            done = subprocess.run(
                [os.path.join(script.BIN, "tandemrun"), "--servers=2", "--workers=2", "train.py"],
                cwd=folder, capture_output=True, text=True, check=False, timeout=180,
                env={**os.environ, "PATH": f"{interpreters}:/usr/bin:/bin"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            said = []
            for rank in range(2):
                with open(os.path.join(folder, f"log-train/workerlog.{rank}"),
                          encoding="utf-8") as file:
                    said.append(file.read())
            return said

    def test_two_trainers_by_tandemrun(self):
        said = [re.search(r"loss (\S+)\nweight (\S+)", text) for text in self.run_program(
            0, 'print("weight", model.out.weight.sum().item())\n')]
        self.assertLess(float(said[0][1]), 1.5)
        self.assertEqual(said[0][2], said[1][2])  # the same parameters on both trainers

    def test_rows_ahead(self):
        for text in self.run_program(1):
            self.assertEqual(text.splitlines()[-1], "18", text)


class Mistakes(unittest.TestCase):
    def test_clear_errors(self):
        table = tandem.torch.EmbeddingBag(10, 4)
        with self.assertRaisesRegex(RuntimeError, "before tandem.torch.Optimizer"):
            table(torch.tensor([[1]]))
        with self.assertRaisesRegex(ValueError, "no parameter servers are given"):
            tandem.torch.Optimizer(Net(table))
        with self.assertRaisesRegex(ValueError, "expected sum, mean or max"):
            tandem.torch.EmbeddingBag(10, 4, "product")
        with self.assertRaisesRegex(ValueError, "at least 1"):
            tandem.torch.Embedding(0, 4)
        with self.assertRaisesRegex(ValueError, "torch.float64"):
            tandem.torch.Optimizer(Net(table).double(), servers=["127.0.0.1:1"])


if __name__ == "__main__":
    script.main()
