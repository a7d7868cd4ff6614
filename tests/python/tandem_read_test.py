"""`tandem.ps.Reader` and `tandem read` show rows and variables of servers and of their replicas."""

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import script

script.need_modules("grpc", "numpy", "google.protobuf", package="python3-grpcio, python3-protobuf")
# pylint: disable=wrong-import-position
import numpy
import tandem_case as case
import tandem.ps
from pserver_process import Replicas, Servers
from tandem import errors
from tandem.ps import Reader

SECRET = "0123456789abcdef0123456789abcdef"
SHAPES = {"fc.w": (300, 40), "fc.b": (40,)}
TABLES = {"emb": tandem.ps.Table(1000, 4, "uniform", -0.1, 0.1, 1)}
SLOW = 120.0  # seconds that nothing here takes
# Connects and reads. Waits for a line before each call. Prints the exception that ends a call.
PROGRAM = """
import sys
import tandem.ps

def wait(step):
    print(step, flush=True)
    sys.stdin.readline()

try:
    wait("connect")
    reader = tandem.ps.Reader([sys.argv[1]], timeout=float(sys.argv[2]))
    wait("read")
    reader.read_rows("emb", [3])
except BaseException as error:
    print(type(error).__name__, flush=True)
"""


class Test(unittest.TestCase):
    def setUp(self):
        self.servers = self.entered(Servers(script.BUILD, 2, "--durability=logged"))
        self.client = self.entered(tandem.ps.Client(self.servers.addresses))
        random = numpy.random.default_rng(7)
        self.params = {n: random.standard_normal(s, numpy.float32) for n, s in SHAPES.items()}
        self.client.configure(SHAPES, tables=TABLES, mode="a_sync", min_block_size=1000)
        self.client.init_or_fetch(self.params)
        self.steps = 0

    def entered(self, manager):
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def train(self, steps):
        """Pushes to all variables and to the rows 7 and 8."""
        for _ in range(steps):
            gradients = {n: numpy.ones(s, numpy.float32) for n, s in SHAPES.items()}
            rows = {"emb": (numpy.array([7, 8]), numpy.ones((2, 4), numpy.float32))}
            self.client.push_pull(self.steps, 0.5, gradients, self.params, rows)
            self.steps += 1

    def same(self, reader, ids):
        """Whether a reader gets the values of the trainer, at all servers."""
        rows, dense = reader.read_rows("emb", ids), reader.read_dense()
        return (min(dense.versions) == self.steps
                and numpy.array_equal(rows.values, self.client.pull_rows("emb", ids))
                and sorted(dense.variables) == sorted(self.params)
                and all(numpy.array_equal(dense.variables[n], self.params[n].reshape(-1))
                        for n in self.params))

    def tandem(self, *args, **environment):
        done = subprocess.run([os.path.join(script.BIN, "tandem"), "read", *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout


class Reading(Test):
    def test_servers_and_replicas_give_the_values_of_the_trainer(self):
        self.train(3)
        ids = numpy.arange(400)
        with Reader(self.servers.addresses) as reader:
            self.assertTrue(self.same(reader, ids))
        replicas = self.entered(Replicas(script.BUILD, self.servers))
        with Reader(replicas.addresses[::-1], job="job") as reader:  # in any order
            for steps in (0, 1, 5):
                self.train(steps)
                self.until_same(reader, ids)
        self.assertEqual(self.client.pull_table("emb")[0].tolist(), [7, 8])  # reads create no row

    def until_same(self, reader, ids):
        until = time.monotonic() + SLOW
        while not self.same(reader, ids):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.001)

    def test_a_replica_answers_without_its_server_and_follows_it_again(self):
        replicas = self.entered(Replicas(script.BUILD, self.servers))
        ids = numpy.arange(20)
        self.train(2)
        with Reader(replicas.addresses) as reader:
            self.until_same(reader, ids)
            before = reader.read_rows("emb", ids).values
            self.servers.kill(0)
            numpy.testing.assert_array_equal(reader.read_rows("emb", ids).values, before)
            self.servers.start(0)
            self.train(2)
            self.until_same(reader, ids)
        replicas.kill(1)
        self.train(2)
        replicas.start(1)
        with Reader(replicas.addresses) as reader:
            self.until_same(reader, ids)

    def test_a_read_waits_for_a_version(self):
        self.train(1)
        with Reader(self.servers.addresses, timeout=SLOW) as reader:
            first = reader.read_rows("emb", [7, 8])
            later = []
            thread = threading.Thread(target=lambda: later.append(
                reader.read_rows("emb", [7, 8], min_version=[v + 1 for v in first.versions])))
            thread.start()
            self.train(1)
            thread.join(SLOW)
            numpy.testing.assert_array_equal(later[0].values,
                                             self.client.pull_rows("emb", [7, 8]))
            again = reader.read_rows("emb", [7, 8], min_version=later[0].versions)
            self.assertGreaterEqual(again.versions, later[0].versions)
            self.assertGreaterEqual(min(reader.read_dense(min_version=2).versions), 2)
            for wrong in ([1, 2, 3], -1, [2**64, 0]):
                with self.assertRaises(errors.InvalidArgumentError):
                    reader.read_dense(min_version=wrong)
        with Reader(self.servers.addresses, timeout=0.3) as reader:
            with self.assertRaisesRegex(errors.DeadlineExceededError, "pserver [01] "):
                reader.read_rows("emb", [7, 8], min_version=1000)

    def test_arrays(self):
        self.train(1)
        with Reader(self.servers.addresses) as reader:
            values, versions = reader.read_rows("emb", numpy.array([[7, 8, 7], [9, 7, 0]]))
            self.assertEqual((values.shape, values.dtype, len(versions)), ((2, 3, 4), "float32", 2))
            self.assertTrue(values.flags.c_contiguous and values.flags.writeable)
            numpy.testing.assert_array_equal(values[0, 0], values[1, 1])
            for ids in (numpy.arange(20)[::2], numpy.arange(0, 20, 2, dtype="int32"),
                        list(range(0, 20, 2))):
                numpy.testing.assert_array_equal(
                    reader.read_rows("emb", ids).values,
                    self.client.pull_rows("emb", numpy.arange(0, 20, 2)))
            self.assertEqual(reader.read_rows("emb", numpy.array(7)).values.shape, (4,))
            one = reader.read_rows("emb", [7])
            self.assertEqual(sorted(one.versions), [0, 1])  # one of the servers has the row
            kept = reader.read_dense().variables["fc.w"]
        self.assertEqual(kept.shape, (300 * 40,))
        numpy.testing.assert_array_equal(kept.reshape(300, 40), self.params["fc.w"])

    def test_names_are_those_of_the_client(self):
        client = inspect.signature(tandem.ps.Client.__init__).parameters
        for name, parameter in inspect.signature(Reader.__init__).parameters.items():
            if name not in ("self", "servers", "timeout"):
                self.assertEqual(parameter.default, client[name].default, name)


class Failures(Test):
    def test_wrong_arguments(self):
        address = self.servers.addresses
        errors = tandem.errors
        with Reader(address) as reader:
            for kind, code, table, ids in (
                    (errors.NotFoundError, "TD4034", "none", [3]),
                    (errors.InvalidArgumentError, "TD1004", "emb", []),
                    (errors.InvalidArgumentError, "TD1206", "emb", [0.5]),
                    (errors.InvalidArgumentError, "", "emb", [-1]),
                    (errors.InvalidArgumentError, "", "emb", [1000])):
                with self.subTest(table=table, ids=ids), self.assertRaises(kind) as caught:
                    reader.read_rows(table, ids)
                if code:
                    self.assertEqual(caught.exception.code, code)
        with self.assertRaises(errors.FailedPreconditionError) as caught:
            reader.read_rows("emb", [3])  # closed
        self.assertEqual(caught.exception.code, "TD1219")
        for options, code in (({"timeout": 0}, "TD1004"), ({"timeout": float("nan")}, "TD1004")):
            with self.assertRaises(errors.InvalidArgumentError) as caught:
                Reader(address, **options)
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(errors.InvalidArgumentError):
            Reader(address[0])
        with self.assertRaises(errors.InvalidArgumentError):
            Reader([])
        with self.assertRaises(tandem.Error) as caught:
            Reader(address, job="other", timeout=5)
        self.assertEqual(caught.exception.code, "TD4002")
        begin = time.monotonic()
        with self.assertRaises(errors.UnavailableError) as caught:
            Reader(["127.0.0.1:1"], timeout=0.5)
        self.assertEqual(caught.exception.code, "TD4001")
        self.assertLess(time.monotonic() - begin, SLOW / 10)

    def test_a_server_is_not_named(self):
        with Reader(self.servers.addresses[1:], timeout=0.5) as reader:
            for read in (reader.read_dense, lambda: reader.read_rows("emb", range(100))):
                with self.assertRaises(tandem.errors.OutOfRangeError) as caught:
                    read()
                self.assertEqual(caught.exception.code, "TD4035")

    def test_secret(self):
        with Servers(script.BUILD, 1, "--durability=logged", secret=SECRET) as servers:
            with tandem.ps.Client(servers.addresses, secret=SECRET) as client:
                client.configure({"w": (2,)})
                client.init_or_fetch({"w": numpy.ones(2, numpy.float32)})
                with Replicas(script.BUILD, servers, secret=SECRET) as replicas:
                    for addresses in (servers.addresses, replicas.addresses):
                        with Reader(addresses, secret=SECRET) as reader:
                            dense = reader.read_dense()
                        self.assertEqual(dense.variables["w"].tolist(), [1, 1])
                        with self.assertRaises(tandem.errors.UnauthenticatedError):
                            Reader(addresses)
                        with self.assertRaises(tandem.errors.UnauthenticatedError):
                            Reader(addresses, secret="f" * 32)

    def test_replicas_refuse_trainers_and_checkpoints(self):
        replicas = self.entered(Replicas(script.BUILD, self.servers))
        with tandem.ps.Client(replicas.addresses) as trainer:
            with self.assertRaises(tandem.ps.PserverError) as caught:
                trainer.configure(SHAPES)
        self.assertIn("this server is a replica, which does not answer Configure [TD4033]",
                      str(caught.exception))
        done = subprocess.run([os.path.join(script.BIN, "tandem"), "save", "--job=job",
                               "--pservers=" + ",".join(replicas.addresses)],
                              text=True, capture_output=True, check=False)
        self.assertIn("does not answer SaveCheckpoint [TD4033]", done.stderr)


class Waits(Test):
    """A stopped server keeps its connections, and does not reply."""

    def stop(self):
        for process in self.servers.running:
            os.kill(process.pid, signal.SIGSTOP)
            self.addCleanup(os.kill, process.pid, signal.SIGCONT)

    def test_other_threads_run_and_a_late_reply_counts(self):
        with Reader(self.servers.addresses, timeout=SLOW) as reader:
            want = reader.read_rows("emb", [3]).values
            self.stop()
            got = []
            thread = threading.Thread(target=lambda: got.append(reader.read_rows("emb", [3])))
            thread.start()
            time.sleep(0.3)  # this thread runs
            self.assertTrue(thread.is_alive() and not got)
            for process in self.servers.running:
                os.kill(process.pid, signal.SIGCONT)
            thread.join(SLOW)
            numpy.testing.assert_array_equal(got[0].values, want)

    def test_a_read_has_a_time_limit(self):
        with Reader(self.servers.addresses, timeout=0.5) as reader:
            self.stop()
            with self.assertRaises(tandem.errors.DeadlineExceededError):
                reader.read_dense()

    def interrupted(self, address, steps, before_last=lambda: None):
        """Sends SIGINT to a program in the last of its steps."""
        with subprocess.Popen([sys.executable, "-c", PROGRAM, address, str(SLOW)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": case.PACKAGES}) as program:
            for step in steps:
                self.assertEqual(program.stdout.readline(), step + "\n")
                if step == steps[-1]:
                    before_last()
                program.stdin.write("\n")
                program.stdin.flush()
            time.sleep(1)  # the program is in its call
            begin = time.monotonic()
            program.send_signal(signal.SIGINT)
            self.assertEqual(program.stdout.readline(), "KeyboardInterrupt\n")
            self.assertEqual(program.wait(), 0)
        self.assertLess(time.monotonic() - begin, SLOW / 4)

    def test_ctrl_c_ends_a_connection(self):
        self.interrupted("127.0.0.1:1", ["connect"])

    def test_ctrl_c_ends_a_read(self):
        with Servers(script.BUILD, 1) as servers, tandem.ps.Client(servers.addresses) as client:
            client.configure({"w": (2,)}, tables=TABLES)
            client.init_or_fetch({"w": numpy.ones(2, numpy.float32)})
            self.interrupted(servers.addresses[0], ["connect", "read"],
                             lambda: os.kill(servers.running[0].pid, signal.SIGSTOP))


class Command(Test):
    def setUp(self):
        super().setUp()
        self.train(2)
        self.job = ["--job=job", "--pservers=" + ",".join(self.servers.addresses)]

    def test_rows(self):
        code, said = self.tandem("emb", "7", "3", "-o", "json", *self.job)
        self.assertEqual(code, 0, said)
        rows = json.loads(said)
        self.assertEqual((rows["table"], rows["dim"], [r["id"] for r in rows["rows"]]),
                         ("emb", 4, [7, 3]))
        values = self.client.pull_rows("emb", [7, 3])
        for row, want in zip(rows["rows"], values):
            numpy.testing.assert_array_equal(numpy.float32(row["values"]), want)
        code, said = self.tandem("emb", "7", *self.job)
        self.assertEqual(code, 0, said)
        self.assertTrue(said.startswith("table emb: 1 rows of 4 values, versions "), said)
        shown = numpy.float32(said.splitlines()[-1].split())
        numpy.testing.assert_array_equal(shown, [7, *values[0]])

    def test_replicas(self):
        replicas = self.entered(Replicas(script.BUILD, self.servers))
        one = self.tandem("emb", "7", "8", *self.job)
        self.job[1] = "--pservers=" + ",".join(replicas.addresses)
        self.assertEqual(self.tandem("emb", "7", "8", *self.job), one)

    def test_dense(self):
        code, said = self.tandem("--dense", "-o", "json", *self.job)
        self.assertEqual(code, 0, said)
        summary = json.loads(said)
        self.assertEqual(len(summary["versions"]), 2)
        self.assertEqual([row["name"] for row in summary["variables"]], sorted(SHAPES))
        for row in summary["variables"]:
            values = self.params[row["name"]]
            self.assertEqual((row["elements"], row["not_finite"]), (values.size, 0))
            self.assertEqual((row["min"], row["max"]), (values.min(), values.max()))
            self.assertAlmostEqual(row["mean"], values.mean(dtype="float64"), places=9)
        code, said = self.tandem("--dense", *self.job)
        self.assertEqual(code, 0, said)
        table = [line.split() for line in said.splitlines()[2:]]
        self.assertEqual(table[0], ["VARIABLE", "ELEMENTS", "MIN", "MAX", "MEAN", "NOT", "FINITE"])
        self.assertEqual([row[:2] for row in table[1:]], [["fc.b", "40"], ["fc.w", "12000"]])
        self.assertEqual(numpy.float32(table[1][2]), self.params["fc.b"].min())

    def test_a_dense_variable(self):
        code, said = self.tandem("--dense=fc.w", *self.job)
        self.assertEqual(code, 0, said)
        want = self.params["fc.w"].reshape(-1)
        numpy.testing.assert_array_equal(numpy.float32(said.split()), want)
        code, said = self.tandem("--dense=fc.w", "-o", "json", *self.job)
        numpy.testing.assert_array_equal(numpy.float32(json.loads(said)["values"]), want)

    def test_failures(self):
        for args, code, words in (
                (["--dense=fc.v"], 2, 'no dense variable "fc.v" [TD4034]'),
                (["none", "3"], 2, 'no table "none" [TD4034]'),
                (["emb", "1000"], 2, "1000")):
            with self.subTest(args=args):
                got, said = self.tandem(*args, *self.job)
                self.assertEqual(got, code, said)
                self.assertIn(words, said)
        one = ["--job=job", f"--pservers={self.servers.addresses[0]}", "--timeout_s=1"]
        for args in (["--dense"], ["emb", *map(str, range(20))]):
            self.assertIn("a server of the job is not named, or rows move between servers [TD4035]",
                          self.tandem(*args, *one)[1])


if __name__ == "__main__":
    script.main()
