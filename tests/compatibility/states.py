"""The files of a job that a later version of Tandem must be able to read. Each state can be made with the
programs of this version (make), and checked with those of any version (check). `expected` is JSON: what
the files contain."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import script
from pserver_process import Servers

sys.path.insert(0, os.path.join(script.BUILD, "python"))
import numpy  # pylint: disable=wrong-import-position
import tandem_pserver  # pylint: disable=wrong-import-position
from tandem_pserver import Table  # pylint: disable=wrong-import-position

F32 = numpy.float32
SHAPES = {"w": (60, 5), "b": (5,)}
TABLE = "rows"
ROWS, DIM = 4000, 3
SECONDS = 120


def run(program, *arguments, code=0):
    """Runs a program of the build, and returns its output."""
    command = [os.path.join(script.BIN, program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def hexes(values):
    """The exact numbers, as text."""
    return [float(v).hex() for v in numpy.asarray(values).ravel()]


def push(client, step):
    """Pushes gradients of whole numbers, so that all processors give the same bits."""
    random = numpy.random.default_rng(step)
    ids = numpy.sort(random.choice(ROWS, 40, replace=False)).astype(numpy.int64)
    of = {name: random.integers(-4, 5, shape).astype(F32) for name, shape in SHAPES.items()}
    client.push(step, 0.25, of, {TABLE: (ids, random.integers(-4, 5, (40, DIM)).astype(F32))})


def client_of(servers, mode="sync"):
    client = tandem_pserver.Client(servers.addresses, job="job", step_timeout=60.0)
    tables = {TABLE: Table(ROWS, DIM, rules="shrink_every=4 ttl=6")}
    client.configure(SHAPES, "momentum", {"mu": 0.5}, mode=mode, tables=tables, min_block_size=100)
    return client


def connection(servers):
    return ["--pservers=" + ",".join(servers.addresses), "--job=job"]


class Pservers:
    """The directories of killed pservers. The subclasses differ in what happens before the kill."""

    count, flags, mode, steps = 1, ("--durability=logged", "--wal_sync=always"), "sync", 12

    def make(self, folder):
        with Servers(script.BUILD, self.count, *self.flags) as servers:
            with client_of(servers, self.mode) as client:
                params = {name: numpy.ones(shape, F32) for name, shape in SHAPES.items()}
                step = client.init_or_fetch(params)
                while step < self.steps:
                    self.before(step, servers)
                    push(client, step)
                    step += 1
                    client.pull(params, step)
                version = client.pull(params)
                expected = {"version": version, **self.content(client, params)}
            for i in range(self.count):
                servers.kill(i)
                shutil.copytree(os.path.join(servers.folder.name, str(i)), os.path.join(folder, str(i)))
        return expected

    def before(self, step, servers):
        pass

    def content(self, client, params):
        table = client.pull_table(TABLE)
        return {"variables": {name: hexes(v) for name, v in params.items()},
                "ids": [int(i) for i in table[0]], "rows": hexes(table[1])}

    def check(self, folder, expected, test):
        with Servers(script.BUILD, self.count, *self.flags) as servers:
            for i in range(self.count):
                servers.kill(i)
                place = os.path.join(servers.folder.name, str(i))
                shutil.rmtree(place)
                shutil.copytree(os.path.join(folder, str(i)), place)
                servers.start(i)
            with client_of(servers, self.mode) as client:
                params = {name: numpy.zeros(shape, F32) for name, shape in SHAPES.items()}
                test.assertEqual(client.init_or_fetch(params), expected["version"])
                got = self.content(client, params)
                for part, value in got.items():
                    test.assertEqual(value, expected[part], part)
                self.after(servers, expected, test)
                push(client, expected["version"])
                test.assertGreater(client.pull(params, expected["version"] + 1), expected["version"])

    def after(self, servers, expected, test):
        pass


class Log(Pservers):
    """A checkpoint and the log after it."""

    def before(self, step, servers):
        if step == 5:
            run("tandem", "save", *connection(servers))


class Delta(Pservers):
    """A checkpoint, a delta to it, and the log after the delta."""

    def before(self, step, servers):
        if step in (3, 7):
            run("tandem", "save", "--mode=full" if step == 3 else "--mode=delta", *connection(servers))


class Snapshots(Pservers):
    """Global snapshots of two servers."""

    count = 2

    def before(self, step, servers):
        if step in (4, 8):
            run("tandem", "save", "--snapshot", *connection(servers))

    def after(self, servers, expected, test):
        kept = json.loads(run("tandem", "snapshots", "-o", "json", *connection(servers)))
        test.assertEqual([(s["snapshot"], s["versions"], s["whole"]) for s in kept],
                         [(1, [4, 4], True), (2, [8, 8], True)])


class Moved(Pservers):
    """Two servers. The rows and slices of the second one have moved to the first one."""

    count, mode = 2, "a_sync"

    def before(self, step, servers):
        if step == 6:
            run("tandem", "drain", "--pserver=1", *connection(servers))


class Checkpoint:
    """A checkpoint of a local job."""

    JOB = """name: "job"
model {{ zoo: "softmax" }}
data {{ format: "mnist" dir: "/usr/share/datasets/fashion-mnist" }}
optimizer {{ type: "momentum" learning_rate: 0.1 }}
batch_size: 32
steps_max: {steps}
checkpoint {{ dir: "checkpoints" every_steps: 6 }}
"""

    @staticmethod
    def job(folder, steps):
        path = os.path.join(folder, "job.pbtxt")
        with open(path, "w") as file:
            file.write(Checkpoint.JOB.format(steps=steps))
        return path

    @staticmethod
    def train(folder, steps):
        job = Checkpoint.job(folder, steps)
        done = subprocess.run([os.path.join(script.BIN, "tandem-trainer"), job], cwd=folder,
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout + done.stderr

    @staticmethod
    def digests(folder):
        path = os.path.join(folder, "exported.npz")
        run("tandem", "export", os.path.join(folder, "checkpoints"), path, "--what=all")
        with numpy.load(path) as arrays:
            return {name: hashlib.sha256(arrays[name].tobytes()).hexdigest() for name in arrays.files}

    def make(self, folder):
        self.train(folder, 6)
        expected = {"digests": self.digests(folder)}
        os.remove(os.path.join(folder, "exported.npz"))
        return expected

    def check(self, folder, expected, test):
        test.assertEqual(self.digests(folder), expected["digests"])
        test.assertIn("resumed at step 6 of 9", self.train(folder, 9))


class JobRecord:
    """The log directory of a job that has ended."""

    def make(self, folder):
        job = Checkpoint.job(folder, 4)
        log = os.path.join(folder, "log")
        run("tandemrun", "--servers=1", "--workers=1", "--log_dir=" + log, job)
        shutil.rmtree(os.path.join(folder, "checkpoints"), ignore_errors=True)
        for name in os.listdir(log):
            if name not in ("job.json", "events.jsonl"):
                path = os.path.join(log, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        return {"events": [e["event"] for e in self.events(folder)]}

    @staticmethod
    def events(folder):
        return json.loads(run("tandem", "events", "-o", "json", os.path.join(folder, "log")))

    def check(self, folder, expected, test):
        test.assertEqual([e["event"] for e in self.events(folder)], expected["events"])


class Standbys:
    """The directories of a pserver and its standby, of a job that has ended."""

    @staticmethod
    def train(folder, steps):
        job = Checkpoint.job(folder, steps)
        log = os.path.join(folder, "log")
        shutil.rmtree(log, ignore_errors=True)
        run("tandemrun", "--servers=1", "--standbys=1", "--workers=1", "--log_dir=" + log,
            "--pserver_data_dir=" + os.path.join(folder, "state"), job)
        with open(os.path.join(log, "workerlog.0")) as file:
            return file.read()

    def make(self, folder):
        self.train(folder, 6)
        for name in os.listdir(folder):
            if name != "state":
                path = os.path.join(folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        return {"steps": 6}

    def check(self, folder, expected, test):
        text = self.train(folder, expected["steps"] + 3)
        test.assertIn(f"resumed at step {expected['steps']} of", text)


STATES = {"log": Log, "delta": Delta, "snapshots": Snapshots, "moved": Moved, "checkpoint": Checkpoint,
          "job_record": JobRecord, "standbys": Standbys}
