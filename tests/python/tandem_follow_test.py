"""`tandem.ps.follow` and `tandem follow` give the rows of a table, whatever is killed.

TANDEM_FOLLOW_ROUNDS and TANDEM_FOLLOW_SEED set the length and the seed of the ledger
(tests/long/follow.sh).
"""

import json
import os
import random
import signal
import struct
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

HEIGHT, DIM = 5000, 4
ROUNDS = int(os.environ.get("TANDEM_FOLLOW_ROUNDS", "12"))
SEED = int(os.environ.get("TANDEM_FOLLOW_SEED", random.randrange(1 << 30)))
SLOW = 120.0  # seconds that nothing here takes


def tandem_program():
    return os.path.join(script.BIN, "tandem")


class Test(unittest.TestCase):
    def setUp(self):
        self.servers = self.entered(Servers(script.BUILD, 2, "--durability=logged"))
        self.client = tandem.ps.Client(self.servers.addresses, step_timeout=SLOW)
        self.addCleanup(self.client.close)
        self.params = {"w": numpy.zeros((3,), numpy.float32)}
        self.client.configure({"w": (3,)}, mode="a_sync", tables={
            "emb": tandem.ps.Table(HEIGHT, DIM, "uniform", -0.1, 0.1, 1)})
        self.steps = self.client.init_or_fetch(self.params)

    def entered(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def push(self, *ids):
        rows = numpy.array(sorted(ids))
        values = numpy.ones((len(rows), DIM), numpy.float32)
        gradients = {"w": numpy.ones((3,), numpy.float32)}
        self.client.push_pull(self.steps, 0.5, gradients, self.params, {"emb": (rows, values)})
        self.steps += 1

    def table(self):
        """The rows that the servers have: their weights by id."""
        ids, values = self.client.pull_table("emb")[:2]
        return {int(i): tuple(v[:DIM].tolist()) for i, v in zip(ids, values)}


def plain(rows):
    return {i: tuple(numpy.asarray(v).tolist()) for i, v in rows.items()}


class Following(Test):
    def until_equal(self, follower, rows):
        until = time.monotonic() + SLOW
        current = False
        # The rows can be equal before the follower has the last buckets, which have no rows.
        while not current or plain(rows) != self.table():
            self.assertLess(time.monotonic(), until)
            change = follower.next(0.05)
            if change is not None:
                change.apply(rows)
                token, current = change.token, change.current
        return token

    def test_all_rows_and_then_each_change(self):
        self.push(7, 8)
        self.push(8, 4000)
        rows = {}
        with tandem.ps.Follower(self.servers.addresses, "emb", job="job") as follower:
            token = self.until_equal(follower, rows)
            self.assertEqual(sorted(rows), [7, 8, 4000])
            self.push(1, 2)
            self.until_equal(follower, rows)
            self.assertIsNone(follower.next(0.05))
        again = dict(rows)
        with tandem.ps.Follower(self.servers.addresses, "emb", token=token) as follower:
            change = follower.next(SLOW)
            self.assertEqual((change.values.dtype, change.ids.dtype), ("float32", "int64"))
            self.assertEqual(change.values.shape, (len(change.ids), DIM))
            self.assertFalse(set(change.ids.tolist()) - {1, 2})
            self.assertEqual(len(change.replaced), 0)
            change.apply(again)
        with self.assertRaisesRegex(errors.FailedPreconditionError, "closed"):
            follower.next(0.1)

    def test_a_generator(self):
        self.push(7, 8)
        rows, seen = {}, 0
        for change in tandem.ps.follow(self.servers.addresses, "emb", job="job"):
            change.apply(rows)
            seen += 1
            if change.current:
                break
        self.assertEqual(plain(rows), self.table())
        self.assertGreaterEqual(seen, 2)  # one of each server at least

    def test_rows_of_replaced_buckets_are_forgotten(self):
        bucket = int(tandem.ps.row_buckets(numpy.array([5]))[0])
        whole = tandem.ps.Change(0, 9, numpy.array([bucket]), False, numpy.array([], numpy.int64),
                                 numpy.zeros((0, DIM), numpy.float32), numpy.array([6]), True, b"")
        others = [i for i in range(2000)
                  if tandem.ps.row_buckets(numpy.array([i]))[0] != bucket and i != 6]
        rows = {i: numpy.zeros(DIM) for i in range(2000)}
        whole.apply(rows)
        self.assertEqual(sorted(rows), others)

    def test_mistakes(self):
        for wrong, arguments in [
            ("expected a list of addresses", {"servers": self.servers.addresses[0]}),
            ("interval is 0 s", {"interval": 0}),
            ("timeout is 0 s", {"timeout": 0}),
            ("TD4037", {"token": b"damaged"}),
        ]:
            options = {"servers": self.servers.addresses, "table": "emb", **arguments}
            with self.assertRaisesRegex(errors.InvalidArgumentError, wrong):
                tandem.ps.Follower(**options)
        with tandem.ps.Follower(self.servers.addresses, "none") as follower:
            with self.assertRaisesRegex(errors.NotFoundError, "TD4034"):
                follower.next(SLOW)

    def test_close_ends_the_wait_of_another_thread(self):
        follower = tandem.ps.Follower(self.servers.addresses, "emb")
        while not follower.next(SLOW).current:
            pass
        ended = []

        def wait():
            try:
                follower.next(SLOW)
            except errors.Error as error:
                ended.append(type(error))

        thread = threading.Thread(target=wait)
        thread.start()
        follower.close()
        thread.join(SLOW / 4)
        self.assertIn(ended, [[errors.CancelledError], [errors.FailedPreconditionError]])

    def test_ctrl_c_ends_the_wait(self):
        program = ("import sys, tandem.ps\n"
                   "follower = tandem.ps.Follower([sys.argv[1], sys.argv[2]], 'emb')\n"
                   "while not (follower.next(60) or exit(3)).current: pass\n"
                   "try:\n"
                   "    print('waits', flush=True)\n"
                   "    follower.next(600)\n"
                   "except KeyboardInterrupt:\n"
                   "    print('ended', flush=True)\n")
        with subprocess.Popen([sys.executable, "-c", program, *self.servers.addresses],
                              stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as process:
            self.assertEqual(process.stdout.readline(), "waits\n")
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.stdout.readline(), "ended\n")
            self.assertLess(time.monotonic() - begun, SLOW / 4)

    def test_changes_arrive_within_a_second(self):
        arrived = []
        with tandem.ps.Follower(self.servers.addresses, "emb") as follower:
            while not follower.next(SLOW).current:
                pass
            for i in range(20):
                self.push(i)
                pushed = time.monotonic()
                while True:
                    change = follower.next(SLOW)
                    if i in change.ids.tolist():
                        break
                arrived.append(time.monotonic() - pushed)
        self.assertLess(sorted(arrived)[10], 1.0)


class Filters(Test):
    def rows_of(self, **options):
        rows = {}
        for change in tandem.ps.follow(self.servers.addresses, "emb", job="job", **options):
            change.apply(rows)
            if change.current:
                return rows

    def test_buckets(self):
        self.push(*range(1, 200))
        low, high = self.rows_of(buckets=(0, 300)), self.rows_of(buckets=(300, 1024))
        self.assertFalse(set(low) & set(high))
        self.assertTrue(low and high)
        self.assertEqual({**plain(low), **plain(high)}, self.table())

    def test_minimum_score(self):
        self.push(7, 8)
        self.push(8)
        self.assertEqual(sorted(self.rows_of(min_score=2)), [8])
        self.assertEqual(sorted(self.rows_of(min_score=1)), [7, 8])

    def test_values_in_fewer_bytes(self):
        self.push(*range(1, 100))
        exact = self.rows_of()
        for values, bound in (("bf16", lambda row: numpy.abs(row) / 256),
                              ("int8", lambda row: numpy.abs(row).max() / 254 * 1.0001)):
            rows = self.rows_of(values=values)
            self.assertEqual(sorted(rows), sorted(exact))
            for i, row in exact.items():
                self.assertTrue((numpy.abs(rows[i] - row) <= bound(row)).all(), (values, i))
            self.assertNotEqual(plain(rows), plain(exact))

    def test_mistakes(self):
        for wrong, options in [
            (r"row buckets \[5, 5\) are not possible", {"buckets": (5, 5)}),
            ('did you mean "bf16"', {"values": "bf17"}),
            ("the minimum score is NaN", {"min_score": float("nan")}),
        ]:
            with self.assertRaisesRegex(errors.InvalidArgumentError, wrong):
                tandem.ps.Follower(self.servers.addresses, "emb", **options)


class Variables(Test):
    def test_all_variables_and_then_each_version(self):
        self.push(7)
        with tandem.ps.VariableFollower(self.servers.addresses, job="job") as follower:
            first = follower.next(SLOW)
            self.assertEqual(list(first.values), ["w"])
            self.assertEqual(first.values["w"].dtype, "float32")
            numpy.testing.assert_array_equal(first.values["w"], self.params["w"])
            self.assertEqual(max(first.versions), 1)
            variables = dict(first.values)
            for _ in range(3):
                self.push(7)
            until = time.monotonic() + SLOW
            while not numpy.array_equal(variables["w"], self.params["w"]):
                self.assertLess(time.monotonic(), until)
                change = follower.next(SLOW)
                change.apply(variables)
            self.assertIsNone(follower.next(0.05))
        with self.assertRaisesRegex(errors.FailedPreconditionError, "closed"):
            follower.next(0.1)

    def test_every_third_version(self):
        seen = []
        changes = tandem.ps.follow(self.servers.addresses, variables=["w"], every=3, job="job")
        seen.append(max(next(changes).versions))
        for _ in range(2):
            for _ in range(3):
                self.push(7)
            seen.append(max(next(changes).versions))
        changes.close()
        self.assertEqual(seen, [0, 3, 6])

    def test_mistakes(self):
        for wrong, options in [("every is 0", {"every": 0}), ("interval is 0 s", {"interval": 0})]:
            with self.assertRaisesRegex(errors.InvalidArgumentError, wrong):
                tandem.ps.VariableFollower(self.servers.addresses, **options)
        with self.assertRaisesRegex(errors.InvalidArgumentError, "a table or variables"):
            next(tandem.ps.follow(self.servers.addresses))
        with tandem.ps.VariableFollower(self.servers.addresses, ["x"], timeout=0.3) as follower:
            with self.assertRaisesRegex(errors.NotFoundError, 'no dense variable "x"'):
                follower.next(SLOW)


class Command(Test):
    def test_variables(self):
        self.push(7)
        text = self.run_follow("--variables", "--until_current")
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertRegex(text.stdout.decode(), r"versions [01],[01]: variable w: 3 elements, ")
        done = self.run_follow("--variables=w", "--until_current", "--output=json")
        self.assertEqual(json.loads(done.stdout)["variables"], {"w": self.params["w"].tolist()})
        data = self.run_follow("--variables=w", "--until_current", "--output=binary").stdout
        self.assertEqual(data[:8], b"TDVAR001")
        self.assertEqual(struct.unpack_from("<2Q", data, 8), (2, 1))
        name, elements = struct.unpack_from("<2Q", data, 40)
        self.assertEqual(data[56:56 + name], b"w")
        self.assertEqual(numpy.frombuffer(data, "<f4", elements, 56 + name).tolist(),
                         self.params["w"].tolist())
        for wrong, args in [
            ("--table and --variables exclude each other [TD1005]", ["--variables", "--table=emb"]),
            ("--every has no effect without --variables [TD1005]", ["--table=emb", "--every=2"]),
            ("--buckets=5: expected BEGIN:END", ["--table=emb", "--buckets=5"]),
            ("--min_score=x: expected a number", ["--table=emb", "--min_score=x"]),
            ('expected f32, bf16 or int8 [TD1006]', ["--table=emb", "--values=f16"]),
        ]:
            done = self.run_follow(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wrong, done.stderr.decode())

    def run_follow(self, *args):
        return subprocess.run(
            [tandem_program(), "follow", "--pservers=" + ",".join(self.servers.addresses),
             "--job=job", *args], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_formats(self):
        self.push(7, 8)
        text = self.run_follow("--table=emb", "--until_current")
        self.assertEqual(text.returncode, 0, text.stderr)
        lines = text.stdout.decode().splitlines()
        self.assertEqual(len([line for line in lines if ": row 7: " in line]), 1)
        self.assertEqual(sum(int(line.split()[5]) for line in lines if "row buckets" in line), 1024)
        done = self.run_follow("--table=emb", "--until_current", "--output=json")
        rows = {}
        for line in done.stdout.splitlines():
            change = json.loads(line)
            rows.update({r["id"]: tuple(r["values"]) for r in change["rows"]})
        self.assertTrue(change["current"])
        self.assertEqual(rows, self.table())
        self.push(11)
        done = self.run_follow("--table=emb", "--until_current", "--output=json",
                               "--token=" + change["token"])
        ids = [r["id"] for line in done.stdout.splitlines() for r in json.loads(line)["rows"]]
        self.assertEqual(ids, [11])
        done = self.run_follow("--table=emb", "--until_current", "--output=binary")
        self.assertEqual(self.binary_rows(done.stdout), self.table())

    def binary_rows(self, data):
        """Reads records as docs/internals/change-stream.md says."""
        rows, at = {}, 0
        while at < len(data):
            self.assertEqual(data[at:at + 8], b"TDCHG001")
            _, _, _, dim, replaced, ids, removed, token = struct.unpack_from("<8Q", data, at + 8)
            at += 72 + 8 * replaced
            numbers = numpy.frombuffer(data, "<u8", ids, at)
            at += 8 * (ids + removed)
            values = numpy.frombuffer(data, "<f4", ids * dim, at).reshape(ids, dim)
            at += 4 * ids * dim + token
            rows.update(zip(numbers.tolist(), map(tuple, values.tolist())))
        return rows

    def test_mistakes(self):
        for wrong, args in [
            ("the name of the table is missing [TD1007]", []),
            ("expected text, json or binary [TD1006]", ["--table=emb", "--output=csv"]),
            ('this server has no table "none" [TD4034]', ["--table=none"]),
            ("[TD4037]", ["--table=emb", "--token=*"]),
            ("exclude each other [TD1005]", ["--table=emb", "--token=eA==", "--token_file=x"]),
        ]:
            done = self.run_follow(*args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(wrong, done.stderr.decode())

    def test_a_token_of_another_table(self):
        token = os.path.join(self.servers.folder.name, "token")
        self.push(7)
        done = self.run_follow("--table=emb", "--until_current", f"--token_file={token}")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_follow("--table=other", f"--token_file={token}")
        self.assertIn("TD4037", done.stderr.decode())
        self.push(9)
        done = self.run_follow("--table=emb", "--until_current", f"--token_file={token}",
                               "--output=json")
        ids = [r["id"] for line in done.stdout.splitlines() for r in json.loads(line)["rows"]]
        self.assertEqual(ids, [9])


class Consumer:
    """Runs of `tandem follow` that are killed. Each run continues at the token of the last one."""

    def __init__(self, folder):
        self.folder, self.runs, self.rows, self.process = folder, 0, {}, None
        self.replaced = 0

    def start(self, addresses):
        self.out = os.path.join(self.folder, f"changes-{self.runs}")
        self.read = 0
        self.runs += 1
        with open(self.out, "wb") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen(
                [tandem_program(), "follow", "--pservers=" + ",".join(addresses), "--job=job",
                 "--table=emb", "--output=json", "--token_file=" + self.folder + "/follow.token"],
                stdout=out, stderr=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.take()

    def take(self):
        """Applies the complete lines that the run has written since the last call."""
        with open(self.out, "rb") as file:
            file.seek(self.read)
            data = file.read()
        data = data[:data.rfind(b"\n") + 1]
        self.read += len(data)
        for line in data.splitlines():
            change = json.loads(line)
            whole = set(change["replaced"])
            self.replaced += len(whole)
            if whole and self.rows:
                ids = numpy.fromiter(self.rows, numpy.int64, len(self.rows))
                for row in ids[numpy.isin(tandem.ps.row_buckets(ids), list(whole))].tolist():
                    del self.rows[row]
            for row in change["removed"]:
                self.rows.pop(row, None)
            self.rows.update({r["id"]: tuple(r["values"]) for r in change["rows"]})


class Ledger(Test):
    def test_the_rows_are_equal_whatever_is_killed(self):
        print(f"seed {SEED}, {ROUNDS} rounds", flush=True)
        draw = random.Random(SEED)
        replicas = self.entered(Replicas(script.BUILD, self.servers))
        consumer = Consumer(self.servers.folder.name)
        consumer.start(self.servers.addresses)
        self.addCleanup(lambda: consumer.process.kill())
        kills = {"server": 0, "replica": 0, "follower": 0}
        slowest = 0.0
        for _ in range(ROUNDS):
            stop = threading.Event()
            pushes = threading.Thread(target=self.push_until, args=(stop, draw.randrange(1 << 30)))
            pushes.start()
            for _ in range(draw.randrange(1, 4)):
                time.sleep(draw.random() * 0.2)
                victim = draw.choice(sorted(kills))
                kills[victim] += 1
                if victim == "follower":
                    consumer.kill()
                    consumer.start(draw.choice([self.servers, replicas]).addresses)
                    continue
                group = self.servers if victim == "server" else replicas
                i = draw.randrange(2)
                group.kill(i)
                group.start(i)
            stop.set()
            pushes.join()
            table, begun = self.table(), time.monotonic()
            while consumer.rows != table:
                self.assertLess(time.monotonic() - begun, SLOW, f"seed {SEED}")
                self.assertIsNone(consumer.process.poll(), f"seed {SEED}")
                time.sleep(0.01)
                consumer.take()
            slowest = max(slowest, time.monotonic() - begun)
        consumer.kill()
        print(f"{self.steps} pushes, {sum(kills.values())} kills {kills}, {len(consumer.rows)} "
              f"rows equal after each of {ROUNDS} rounds, after {slowest:.2f} s at most; "
              f"{consumer.replaced} row buckets were sent whole", flush=True)

    def push_until(self, stop, seed):
        draw = random.Random(seed)
        while not stop.is_set():
            self.push(*draw.sample(range(HEIGHT), 20))


if __name__ == "__main__":
    script.main()
