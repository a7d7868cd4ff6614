"""The operator of a job: checkpoints, restores and global snapshots, at any moment."""

import json
import os
import subprocess
import threading

import calls
from clients import Client, versioned
from history import Recorder

COMMAND_SECONDS = 20


class Operator(Client):
    """`quiet`: held while a fault or a restore must be alone (faults.py). `direct`: addresses of
    the servers without the proxies, so that the operator can overtake pushes."""

    def __init__(self, world, program, quiet, direct):
        super().__init__(world, "operator")
        self.program, self.quiet, self.pause = program, quiet, 0.25
        self.direct = direct
        self.numbers = []  # of the snapshots that were taken
        self.actions = [(self.save, 10), (self.hold, 1), (self.take_cut_without_hold, 1),
                        (self.exchange, 1), (self.refuse_buckets, 1)]
        if self.plan["restores"]:
            self.actions.append((self.restore, 4))
        if self.plan["snapshots"]:
            self.actions += [(self.save_snapshot, 12), (self.restore_snapshot, 5)]

    def step(self):
        if self.world.inits.wait(0.1):
            actions, weights = zip(*self.actions)
            self.rng.choices(actions, weights)[0]()

    def any_server(self):
        return self.rng.randrange(self.plan["servers"])

    def job_call(self, name, server, seconds=5.0, reader=versioned, **fields):
        request = calls.request(name, job=self.plan["job"], **fields)
        return self.call(name, server, request, seconds, reader, **fields)

    def save(self):
        self.job_call("SaveCheckpoint", self.any_server(), mode=int(self.rng.random() < 0.3))

    def restore(self):
        """Returns one server to its checkpoint, until it did."""
        server = self.any_server()
        with self.quiet:
            self.until(lambda: self.job_call("RestoreCheckpoint", server))

    def until(self, attempt):
        for _ in range(100):
            reply, code = attempt()
            if reply is not None or code in ("FAILED_PRECONDITION", "NOT_FOUND"):
                return
            threading.Event().wait(0.1)

    def hold(self):
        """Holds pushes for a snapshot that does not follow."""
        server = self.any_server()
        reply, _ = self.call("GetStatus", server, calls.request("GetStatus"))
        if reply is not None:
            cut = reply.last_cut + 1
            self.job_call("HoldPushes", server, cut=cut, lease_ms=200, taker=7,
                          reader=lambda r: {"cuts": list(r.cut)})
            if self.rng.random() < 0.5:
                self.job_call("HoldPushes", server, cut=cut, over=True, taker=7, reader=None)

    def take_cut_without_hold(self):
        self.job_call("TakeCut", self.any_server(), cut=1 << 30, lease_ms=100)

    def exchange(self):
        self.job_call("ExchangeMap", self.any_server(), observer=True)

    def refuse_buckets(self):
        server = self.any_server()
        self.job_call("RefuseBuckets", server, refuse=True, reader=None)
        self.job_call("RefuseBuckets", server, refuse=False, reader=None)

    # ---- Global snapshots ------------------------------------------------------------------------

    def tandem(self, call, *words):
        """One command of `tandem`. Returns whether it succeeded."""
        event = self.world.recorder.begin(self.name, call, words=words)
        command = [self.program, *words, "--job=" + self.plan["job"], "--timeout_s=5",
                   "--output=json", "--pservers=" + ",".join(
                       self.rng.choice((self.world.addresses, self.direct)))]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True,
                                  timeout=COMMAND_SECONDS, env=dict(os.environ))
        except subprocess.TimeoutExpired:
            Recorder.end(event, "unknown", "DEADLINE_EXCEEDED", "the command did not end")
            return False
        if done.returncode != 0:
            Recorder.end(event, "unknown", f"exit code {done.returncode}", done.stderr.strip())
            return False
        number = json.loads(done.stdout)["snapshot"]
        Recorder.end(event, "ok", number=number)
        self.numbers.append(number)
        return True

    def save_snapshot(self):
        self.tandem("snapshot", "save", "--snapshot")

    def restore_snapshot(self):
        if not self.numbers:
            return
        with self.quiet:
            for _ in range(20):
                if self.tandem("restore snapshot", "restore", "--snapshot"):
                    return
