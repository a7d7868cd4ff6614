"""Workloads with Tandem's own Python client: rows and slices that move, and replayable pushes.

The client hides servers, so a history of these workloads has two virtual servers: DENSE has the
elements of variable `ledger`, ROWS the rows of table `rows`. Each push is an event on both."""

import os
import subprocess

import numpy
import tandem_pserver
from tandem_pserver import PserverError, Table

import calls
import plan as plans
from clients import Client
from history import Recorder

DENSE, ROWS = 0, 1
STEP_SECONDS = 15.0
MOVE_SECONDS = 20


class ProductTrainer(Client):
    """A trainer that pushes and reads with tandem_pserver.Client. `secret`: of the job."""

    def __init__(self, world, rank, secret=""):
        self.client, self.rank, self.secret = None, rank, secret
        super().__init__(world, f"trainer {rank}")
        self.pushes, self.pause, self.version = 0, 0.003, 0
        self.sync, self.settled = self.plan["mode"] == "sync", False
        self.dense = numpy.zeros(self.plan["slots"], numpy.float32)

    def connect(self):
        """The product's client has its own channels."""

    def step(self):
        if self.client is None:
            self.begin()
        elif self.rng.random() < 0.08 and (self.settled or not self.sync):
            self.read()
        elif self.rng.random() < 0.004 and self.plan["durability"] == "logged":
            self.end()  # the next step starts another incarnation
        else:
            self.push()

    def begin(self):
        event = self.world.recorder.begin(self.name, "begin")
        self.settled = False  # sync: servers may have different versions until the next step ends
        try:
            self.client = tandem_pserver.Client(
                self.world.addresses, job=self.plan["job"], trainer=self.rank, secret=self.secret,
                trainers=self.plan["trainers"], start_timeout=STEP_SECONDS,
                step_timeout=STEP_SECONDS)
            self.client.configure({"ledger": (self.plan["slots"],)}, mode=self.plan["mode"],
                                  min_block_size=self.plan["slots"] // 8,
                                  tables={"rows": Table(height=plans.HEIGHT, dim=plans.DIM)})
            self.version = self.client.init_or_fetch({"ledger": self.dense})
            Recorder.end(event, "ok", incarnation=self.client.incarnation)
            self.world.inits.set()
        except PserverError as error:
            Recorder.end(event, "unknown", error.code, str(error))
            self.end()

    def end(self):
        if self.client is not None:
            self.client.close()
        self.client = None

    def push(self):
        slots = self.world.take_slots()
        if self.sync:
            slot = self.version * self.plan["trainers"] + self.rank
            slots = [slot] if slot < self.plan["slots"] else None
        if slots is None:
            return
        self.pushes += 1
        args = {"trainer": self.rank, "incarnation": self.client.incarnation,
                "sequence": self.pushes, "slot": slots[0], "parts": "to"}
        events = [self.world.recorder.begin(self.name, "Push", s, **args) for s in (DENSE, ROWS)]
        row, column = plans.row_of(slots[0])
        gradient = calls.minus_one_at(self.plan["slots"], slots[0])
        rows = (numpy.array([row]), calls.minus_one_at(plans.DIM, column)[None, :])
        try:
            if self.sync:
                version = self.version = self.client.push_pull(
                    self.version, 1.0, {"ledger": gradient}, {"ledger": self.dense},
                    {"rows": rows})
                self.settled = True
            elif self.rng.random() < 0.5:
                version = self.client.push(slots[0], 1.0, {"ledger": gradient}, {"rows": rows})
            else:
                version = self.client.push_pull(slots[0], 1.0, {"ledger": gradient},
                                                {"ledger": self.dense}, {"rows": rows})
            for server in list(self.world.traps):
                self.world.acknowledged(server)
            for event in events:
                Recorder.end(event, "ok", version=version, duplicate=False)
        except PserverError as error:
            for event in events:  # some servers may have accepted their part
                Recorder.end(event, "unknown", error.code, str(error))
            if self.sync or error.code in ("FAILED_PRECONDITION", "ABORTED"):
                self.end()

    def find_version(self):
        """Before the last reads in sync mode. Returns whether all servers have one version."""
        try:
            versions = [status.version for status in self.client.status()]
        except PserverError:
            return False
        self.version = min(versions)
        return self.version == max(versions)

    def read(self):
        """Both virtual servers. Returns whether it succeeded."""
        dense = self.world.recorder.begin(self.name, "Pull", DENSE, whole=True)
        rows = None
        try:
            # Sync: the next step needs this trainer, so all servers stay at its version.
            version = self.client.pull({"ledger": self.dense}, self.version if self.sync else 0,
                                       exactly=self.sync)
            Recorder.end(dense, "ok", **_state(self.dense, version))
            rows = self.world.recorder.begin(self.name, "Pull", ROWS, whole=True)
            ids = [plans.row_of(s)[0] for s in range(0, self.world.slots_used, plans.DIM)]
            values = self.client.pull_rows(
                "rows", ids, version if self.sync else 0) if ids else numpy.zeros(0)
            if self.sync and {s.version for s in self.client.status()} != {version}:
                Recorder.end(rows, "unknown")  # a restarted server had a lower version before
                return True
            Recorder.end(rows, "ok", **_state(values.reshape(-1)[:self.plan["slots"]], version))
            return True
        except PserverError as error:
            for event in filter(None, (dense, rows)):
                if event["result"] != "ok":
                    Recorder.end(event, "unknown", error.code, str(error))
            return False


def _state(values, version):
    taken, odd = calls.applied(values)
    return {"version": version, "ledger": f"{taken:x}",
            "odd": {f"ledger {k}": v for k, v in odd.items()}}


class Mover(Client):
    """The operator who adds a server to the job and drains it, again and again."""

    def __init__(self, world, program, servers):
        self.program, self.servers = program, servers
        super().__init__(world, "operator")
        self.pause, self.added = 0.3, False

    def connect(self):
        self.channels = [calls.Channel(s.address) for s in self.servers]

    def step(self):
        if not self.world.inits.wait(0.1):
            return
        if self.rng.random() < 0.4:
            server = self.rng.randrange(len(self.servers))
            self.call("SaveCheckpoint", server,
                      calls.request("SaveCheckpoint", job=self.plan["job"]), 5.0)
        elif self.plan["workload"] == "moves":
            last = len(self.servers) - 1
            words = ["drain", f"--pserver={last}"] if self.added else [
                "rebalance", f"--add={self.servers[last].address}"]
            self.added ^= self.tandem(*words)

    def tandem(self, *words):
        event = self.world.recorder.begin(self.name, words[0], words=words)
        command = [self.program, *words, "--job=" + self.plan["job"], "--timeout_s=5",
                   "--pservers=" + ",".join(self.world.addresses)]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True,
                                  timeout=MOVE_SECONDS, env=dict(os.environ))
        except subprocess.TimeoutExpired:
            Recorder.end(event, "unknown", "DEADLINE_EXCEEDED", "the command did not end")
            return False
        Recorder.end(event, "ok" if done.returncode == 0 else "unknown",
                     "" if done.returncode == 0 else f"exit code {done.returncode}",
                     done.stderr.strip())
        return done.returncode == 0
