"""Rows of tables that PyTorch models request ahead or keep: the same bits in sync mode, a bounded age in
a_sync mode, and clear errors. Calls end a wait at Ctrl-C, and keep their arrays as long as they run."""

import signal
import threading
import time
import unittest
import weakref

import script

script.need_modules("numpy", "torch", package="python3-numpy, python3-torch")
# pylint: disable=wrong-import-position
import numpy
import tandem_case  # noqa: F401  # the package of this build
import torch
from pserver_process import Servers
from tandem import _core
import tandem.torch
from tandem.torch.table_rows import RowPulls

ROWS, DIM, STEPS = 300, 4, 15


class Net(torch.nn.Module):
    """Two tables of different dimensions."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.bags = tandem.torch.EmbeddingBag(ROWS, DIM, "sum")
        self.rows = tandem.torch.Embedding(ROWS, 3, padding_idx=0)
        self.out = torch.nn.Linear(DIM + 3, 1)

    def forward(self, ids):
        return self.out(torch.cat([self.bags(ids), self.rows(ids).sum(1)], 1))


def batch(step):
    return torch.randint(0, ROWS, (8, 5), generator=torch.Generator().manual_seed(step))


class WithServers(unittest.TestCase):
    def optimizer(self, model, job, servers=2, kind="adagrad", lr=0.1, finish=True, **options):
        running = Servers(script.BUILD, servers, job=job)
        running.__enter__()
        self.addCleanup(running.__exit__)
        made = tandem.torch.Optimizer(model, kind, lr=lr, servers=running.addresses, job=job,
                                      trainer=0, trainers=1, **options)
        self.addCleanup(made.finish if finish else made._client.close)
        return made


class Prefetch(WithServers):
    def train(self, announce, **options):
        """Trains and returns optimizer, and all rows and parameters. announce(model, optimizer,
        step) may prefetch."""
        model = Net()
        optimizer = self.optimizer(model, "ahead", **options)
        for step in range(STEPS):
            optimizer.zero_grad()
            (model(batch(step)) ** 2).mean().backward()
            announce(model, optimizer, step)
            optimizer.step()
        return optimizer, {**optimizer.state(), "bags": optimizer.rows("bags"),
                           "rows": optimizer.rows("rows")}

    def same(self, first, second):
        self.assertEqual(first["version"], STEPS)
        for name, value in first.items():
            pairs = zip(value, second[name]) if isinstance(value, tuple) else [(value, second[name])]
            for a, b in pairs:
                numpy.testing.assert_array_equal(a, b, name)

    def test_sync_mode_has_the_same_bits(self):
        plain, without = self.train(lambda *_: None)
        self.assertEqual(plain.counts()["prefetched"], 0)
        self.assertEqual(plain.counts()["shm_servers"], 2)

        def all_tables(_, optimizer, step):
            ids = batch(step + 1)
            optimizer.prefetch({"bags": ids, "rows": ids})

        ahead, found = self.train(all_tables)
        self.assertEqual(ahead.counts()["prefetched"], 2 * (STEPS - 1))
        self.same(without, found)

        def one_table(model, _, step):
            model.bags.prefetch(batch(step + 1))

        ahead, found = self.train(one_table)
        self.assertEqual(ahead.counts()["prefetched"], STEPS - 1)
        self.same(without, found)

    def test_other_ids_than_announced(self):
        _, without = self.train(lambda *_: None)
        other, found = self.train(lambda model, _, step: model.bags.prefetch(batch(1000 + step)))
        self.assertEqual(other.counts()["prefetched"], 0)
        self.same(without, found)

    def test_rows_of_an_earlier_step_are_not_used(self):
        model = Net()
        optimizer = self.optimizer(model, "earlier")
        ids = batch(0)
        model.bags.prefetch(ids)  # requested by the first forward call, for this step
        model.bags.prefetch(ids)
        model(ids).sum().backward()
        self.assertEqual(optimizer.counts()["prefetched"], 1)
        before = optimizer.pull("bags", numpy.arange(ROWS))
        optimizer.step()  # requests the second announcement after the step
        after = model.bags(ids)
        self.assertEqual(optimizer.counts()["prefetched"], 2)
        expected = torch.from_numpy(optimizer.pull("bags", numpy.arange(ROWS)))[ids].sum(1)
        torch.testing.assert_close(after.detach(), expected)
        self.assertFalse(torch.allclose(after.detach(), torch.from_numpy(before)[ids].sum(1)))

    def test_rows_of_an_own_push_in_a_sync_mode(self):
        model = Net()
        optimizer = self.optimizer(model, "own", mode="a_sync")
        for step in range(5):
            optimizer.zero_grad()
            model(batch(0)).sum().backward()
            model.bags.prefetch(batch(step + 1))
            optimizer.step()
            now = torch.from_numpy(optimizer.pull("bags", numpy.arange(ROWS)))
            torch.testing.assert_close(model.bags(batch(step + 1)).detach(),
                                       now[batch(step + 1)].sum(1))
        self.assertEqual(optimizer.counts()["prefetched"], 5)

    def test_ids_that_change_through_numpy(self):
        model = Net()
        self.optimizer(model, "changed")
        array = numpy.array([[1, 2, 3, 4, 5]])
        ids = torch.from_numpy(array)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                for step in range(3):
                    array[:] = batch(step)[:1]
                    torch.testing.assert_close(model(ids), model(torch.tensor(array)))


class Exactly(unittest.TestCase):
    """RowPulls with a client that notes its calls."""

    def versions(self, exactly):
        asked = []

        class Client:
            def pull_rows(self, version, exact, rows):
                asked.append((version, exact, [name for name, _, _ in rows]))
                return self

            def wait(self):
                pass

        pulls = RowPulls(Client(), {"t": (10, 2)}, exactly)
        ids = torch.tensor([1, 2, 1])
        pulls.announce("t", ids)
        pulls.begin_step(5)
        pulls.take("t", ids, 4)  # the step failed, so the version is that before it
        return asked

    def test_rows_of_another_version_are_pulled_again(self):
        self.assertEqual(self.versions(True), [(5, True, ["t"]), (4, True, ["t"])])
        self.assertEqual(self.versions(False), [(5, False, ["t"])])


class Cache(WithServers):
    def test_a_reused_row_lacks_few_pushes(self):
        class One(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.rows = tandem.torch.Embedding(10, 1, init="constant")

            def forward(self, ids):
                return self.rows(ids).sum()

        versions, model = 2, One()
        optimizer = self.optimizer(model, "cache", servers=1, lr=1, kind="sgd", mode="a_sync",
                                   row_cache_mb=1, row_cache_versions=versions)
        lags = []
        for step in range(12):
            optimizer.zero_grad()
            value = model(torch.tensor([3]))
            lags.append(step + value.item())  # pushes that the row lacks
            value.backward()
            optimizer.step()
        # The age counts to the last pull. One push follows it.
        self.assertEqual(max(lags), versions + 1)
        counts = optimizer.counts()
        self.assertEqual((counts["cache_hits"], counts["cache_misses"]), (9, 3))


class Calls(WithServers):
    """Ctrl-C while a call waits, and the arrays of calls."""

    def setUp(self):
        self.limit = 60.0

    def client_of(self):
        return self.optimizer(Net(), "calls", finish=False, step_timeout=self.limit)._client

    def pull(self, client, version):
        """A pull of rows of the table "bags", and a weak reference to the array of its values."""
        values = numpy.zeros((3, DIM), numpy.float32)
        call = client.pull_rows(version, True, [("bags", numpy.arange(3), values)])
        return call, weakref.ref(values)

    def test_an_interrupt_ends_the_wait_and_not_the_call(self):
        client = self.client_of()
        call, values = self.pull(client, 5)  # no step makes this version
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        begin = time.monotonic()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            call.wait()
        self.assertLess(time.monotonic() - begin, self.limit / 4)
        begin = time.monotonic()
        del call  # does not wait
        self.assertLess(time.monotonic() - begin, self.limit / 4)
        self.assertIsNotNone(values())  # the call may still write the array
        self.assertEqual(self.pull(client, 0)[0].wait(), 0)
        client.close()
        self.assertIsNone(values())

    def test_arrays_of_a_dropped_call_are_released_after_its_end(self):
        client = self.client_of()
        values = self.pull(client, 0)[1]
        deadline = time.monotonic() + self.limit
        while values() is not None:
            self.assertLess(time.monotonic(), deadline)
            self.pull(client, 0)[0].wait()  # begins with a look at the calls before

    def test_arrays_of_a_failed_pull_are_released(self):
        self.limit = 0.5
        client = self.client_of()
        call, values = self.pull(client, 5)
        with self.assertRaises(tandem.Error):
            call.wait()
        self.assertIsNone(values())

    def test_gradients_of_a_failed_push_stay_until_the_client_closes(self):
        client = self.client_of()
        gradients = {name: numpy.full(shape, numpy.nan, numpy.float32)
                     for name, shape in (("out.weight", (1, DIM + 3)), ("out.bias", (1,)))}
        params = {name: numpy.zeros_like(array) for name, array in gradients.items()}
        refs = [[weakref.ref(array) for array in arrays.values()] for arrays in (gradients, params)]
        call = client.push_pull(0, 0.1, gradients, params, [])
        del gradients, params
        with self.assertRaises(tandem.Error):
            call.wait()
        self.assertEqual([ref() is None for ref in refs[0]], [False, False])
        self.assertEqual([ref() is None for ref in refs[1]], [True, True])
        client.close()
        self.assertEqual([ref() is None for ref in refs[0]], [True, True])


class Mistakes(WithServers):
    def test_clear_errors(self):
        model = Net()
        with self.assertRaisesRegex(RuntimeError, "before tandem.torch.Optimizer"):
            model.bags.prefetch(batch(0))
        with self.assertRaisesRegex(ValueError, "row_cache_mb is 1, but each step of sync mode"):
            tandem.torch.Optimizer(model, servers=["127.0.0.1:1"], row_cache_mb=1)
        for options in ({"row_cache_mb": 1}, {"row_cache_versions": 2}):
            with self.assertRaisesRegex(ValueError, "one has no effect without the other"):
                tandem.torch.Optimizer(model, servers=["127.0.0.1:1"], mode="a_sync", **options)
        self.optimizer(model, "errors")
        for call in (model.bags, model.bags.prefetch):
            with self.assertRaisesRegex(IndexError, r'table "bags": ids are from 2 to 300, but the '
                                        r"table has 300 rows \[TD1206\]"):
                call(torch.tensor([[2, ROWS]]))
        with self.assertRaisesRegex(IndexError, "ids are from -1 to 3"):
            model.rows(torch.tensor([[-1, 3]]))

    def test_the_index_of_ids(self):
        random = numpy.random.default_rng(3)
        for size in (0, 1, 1000, 70000):
            ids = random.integers(0, 10**12, size) // 10 ** random.integers(0, 12, size)
            rows, places = _core.index_rows(ids, 10**12, "t")
            expected = numpy.unique(ids, return_inverse=True)
            numpy.testing.assert_array_equal(rows, expected[0])
            numpy.testing.assert_array_equal(places, expected[1])
        with self.assertRaisesRegex(ValueError, "not integers of 8 bytes"):
            _core.index_rows(numpy.zeros(3, numpy.int32), 5, "t")

    def test_arrays_that_do_not_fit(self):
        optimizer = self.optimizer(Net(), "fit")
        client = optimizer._client  # pylint: disable=protected-access
        ids, values = numpy.arange(3), numpy.zeros((3, DIM), numpy.float32)
        client.pull_rows(0, True, [("bags", ids, values)]).wait()
        self.assertTrue(values.any())
        for wrong, words in ((numpy.zeros((2, DIM), numpy.float32), "8 values for 3 rows of 4"),
                             (numpy.zeros((3, DIM)), "not floats of 4 bytes"),
                             (numpy.zeros((3, 2 * DIM), numpy.float32)[:, ::2], "not row-major")):
            with self.assertRaisesRegex(ValueError, words):
                client.pull_rows(0, True, [("bags", ids, wrong)])
        with self.assertRaisesRegex(LookupError, 'no table "bagz"'):
            client.pull_rows(0, True, [("bagz", ids, values)])
        with self.assertRaisesRegex(ValueError, "expected bool, int, float or str"):
            client.configure({}, "sgd", {"mu": [1]}, "sync", [])
        with self.assertRaisesRegex(ValueError, r"init of table t: expected one of \['constant', .*, "
                                    r'got "unifrom" \[TD1006\]'):
            client.configure({}, "sgd", {}, "sync", [("t", 3, 1, "unifrom", 0, 1, 1, "")])


if __name__ == "__main__":
    script.main()
