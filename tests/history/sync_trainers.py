"""Trainers of mode sync: every step needs every trainer, with all slices and tables."""

import time

import calls
from clients import CALL_SECONDS, Message, Trainer, calls_range, fill, spoil, versioned
from history import Recorder, result_of


class SyncTrainer(Trainer):
    """Pushes each step in one or two messages to each server, in any order, repeatedly."""

    def __init__(self, world, rank):
        super().__init__(world, rank)
        self.version = 0
        self.pause = 0.004
        self.actions = ((self.push, 30), (self.push_again, 5), (self.push_wrong, 3),
                        (self.pull_a_bit, 3), (self.configure_again, 1), (self.start_again, 1))

    def join_job(self):
        super().join_job()
        if self.joined:
            self.find_step()

    def find_step(self):
        """The lowest version of all servers is the next step."""
        versions = []
        for server in range(self.plan["servers"]):
            reply, _ = self.until_done("GetStatus", server, lambda: calls.request("GetStatus"),
                                       reader=versioned)
            if reply is None:
                self.joined = False
                return
            versions.append(reply.version)
        self.version = min(versions)

    def slot(self):
        return self.version * self.plan["trainers"] + self.rank

    def make(self, servers):
        slot = self.slot()
        if slot >= self.plan["slots"]:
            return []
        made = []
        for server in servers:
            parts = self.rng.choice((("trL", "o"), ("troL",)))
            for each in self.rng.sample(parts, len(parts)):
                self.sequence[server] += 1
                made.append(self.message(server, slot, each))
        return made

    def message(self, server, slot, parts):
        request = calls.request("Push", sequence=self.sequence[server], step=self.version,
                                learning_rate=1.0, **self.caller())
        fill(request.slice, self.plan, server, slot, parts, self.rng)
        if "t" not in parts:
            del request.slice[0]  # the other message has the ledger
        elif not any(piece.variable == "rows" for piece in request.slice):
            calls.add_rows(request.slice, "rows", [], calls.minus_one_at((0, 8), []))
        return Message(server, request, slot, parts)

    def push(self):
        if self.slot() >= self.plan["slots"]:
            return
        made = self.make(self.rng.sample(range(self.plan["servers"]), self.plan["servers"]))
        self.rng.shuffle(made)
        self.send(made)
        if self.joined and not self.world.stop.is_set():
            self.wait_for_step()

    def wait_for_step(self):
        """Pulls the next version of each server, which is there when all trainers have pushed."""
        for server in range(self.plan["servers"]):
            for _ in range(20):
                pull = calls.request("Pull", timeout_ms=int(1000 * CALL_SECONDS) - 500,
                                     min_version=self.version + 1, **self.caller())
                calls_range(pull, self.plan, server, "one", 1)
                reply, code = self.call("Pull", server, pull, reader=versioned,
                                        min_version=pull.min_version)
                if reply is not None or code == "FAILED_PRECONDITION" or self.world.stop.is_set():
                    break
                time.sleep(0.02)
            if reply is None:
                self.joined = False  # perhaps restored, perhaps another incarnation
                return
        self.version += 1

    def push_wrong(self):
        made = self.make([self.rng.randrange(self.plan["servers"])])
        if not made:
            return
        made[0].bad = spoil(made[0].request, self.rng)
        self.attempt(made[:1])

    def finish(self, message, event, future):
        """A stale step after a restore sends the trainer back to the servers' version."""
        reply, code, text = calls.outcome(future)
        if reply is not None:
            return self.accepted(message, event, reply)
        Recorder.end(event, result_of(code), code, text)
        if code == "FAILED_PRECONDITION" and not message.bad:
            self.joined = False
        message.done = "refused" if code == "FAILED_PRECONDITION" or message.bad else ""
        return message.done != ""
