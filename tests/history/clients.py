"""What all random clients share, and the trainers of mode a_sync."""

import random
import threading
import time

import numpy

import calls
import plan as plans
from history import Recorder, result_of

CALL_SECONDS = 3.0     # deadline of most calls
GIVE_UP = 40           # attempts of a push, after which its trainer starts again
RETRY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "RESOURCE_EXHAUSTED", "OUT_OF_RANGE",
         "ABORTED", "DATA_LOSS", "INTERNAL", "UNKNOWN")


class World:
    """What the clients of a run share. `addresses`: of the servers, as clients see them."""

    def __init__(self, plan, addresses, seconds):
        self.plan, self.addresses, self.seconds = plan, addresses, seconds
        self.recorder = Recorder(plan)
        self.stop = threading.Event()
        self.failures = []  # exceptions of client threads: mistakes of this test
        self._lock, self._slot = threading.Lock(), 0
        self.inits = threading.Event()
        self.traps = {}  # by server: called once, at the next acknowledged push

    def take_slots(self, count=1):
        """The next slots, or None if there are no more."""
        with self._lock:
            if self._slot + count > self.plan["slots"]:
                return None
            self._slot += count
            return list(range(self._slot - count, self._slot))

    def acknowledged(self, server):
        trap = self.traps.pop(server, None)
        if trap:
            trap()

    @property
    def slots_used(self):
        return self.plan["slots"] if self.plan["mode"] == "sync" else self._slot


class Client(threading.Thread):
    """A thread with its own random choices and channels. Subclasses have `step`."""

    def __init__(self, world, name):
        super().__init__(name=name, daemon=True)
        self.world, self.plan = world, world.plan
        self.rng = random.Random(f"{self.plan['seed']} {name}")
        self.pause = 0.01
        self.channels = []
        self.connect()

    def connect(self):
        for channel in self.channels:
            channel.close()
        self.channels = [calls.Channel(address, self.rng.randrange(2))
                         for address in self.world.addresses]

    def run(self):
        try:
            while not self.world.stop.is_set():
                self.step()
                self.world.stop.wait(self.rng.expovariate(1 / self.pause))
        except Exception as error:  # pylint: disable=broad-except
            self.world.failures.append((self.name, error))
            raise

    def step(self):
        raise NotImplementedError

    def call(self, name, server, request, seconds=CALL_SECONDS, reader=None, **args):
        """One recorded call. `reader`: makes the recorded part of the reply. Returns (reply,
        code)."""
        event = self.world.recorder.begin(self.name, name, server, seconds=seconds, **args)
        future = self.channels[server].start(name, request, seconds)
        reply, code, message = calls.outcome(future)
        if reply is None:
            Recorder.end(event, result_of(code), code, message)
            self.world.stop.wait(0.05 if code == "UNAVAILABLE" else 0)
        else:
            Recorder.end(event, "ok", **(reader(reply) if reader else {}))
        return reply, code

    def until_done(self, name, server, make, reader=None, **args):
        """Repeats a call until it succeeds or is refused for another reason than the moment."""
        while True:
            reply, code = self.call(name, server, make(), reader=reader, **args)
            if reply is not None or code not in RETRY or self.world.stop.is_set():
                return reply, code
            time.sleep(0.05)


class Message:
    """One push message to one server, which may be sent several times."""

    def __init__(self, server, request, slot, parts, bad=""):
        self.server, self.request, self.slot, self.parts = server, request, slot, parts
        self.bad = bad  # what is wrong with it; "": nothing
        self.done = ""  # ok or refused
        self.impostor = self.early = False


class Trainer(Client):
    """A trainer of mode a_sync: pushes in orders that no client of the product chooses."""

    def __init__(self, world, rank):
        super().__init__(world, f"trainer {rank}")
        self.rank, self.incarnation = rank, 0
        count = self.plan["servers"]
        self.sequence, self.ended = [0] * count, [0] * count
        self.joined, self.recent = False, []
        self.pause = max(0.002, 1.3 * world.seconds * self.plan["trainers"] / self.plan["slots"])
        self.others = [calls.Channel(a, 1) for a in world.addresses]  # second connections
        self.actions = ((self.push, 30), (self.push_several, 6), (self.push_again, 8),
                        (self.push_twice_at_once, 5), (self.push_impostor, 3),
                        (self.push_wrong, 10), (self.pull_a_bit, 6), (self.configure_again, 2),
                        (self.start_again, 1), (self.init_again, 1))

    def caller(self):
        return {"job": self.plan["job"], "trainer_id": self.rank, "incarnation": self.incarnation}

    # ---- Begin of an incarnation -----------------------------------------------------------------

    def step(self):
        if not self.joined:
            self.join_job()
            return
        actions, weights = zip(*self.actions)
        self.rng.choices(actions, weights)[0]()

    def join_job(self):
        self.incarnation += 1 + self.rng.randrange(1 << 20)
        count = self.plan["servers"]
        self.sequence, self.ended, self.recent = [0] * count, [0] * count, []
        order = self.rng.sample(range(count), count)
        if self.rng.random() < 0.2 and self.incarnation > 1:
            self.push_too_early()
        for server in order:
            reply, _ = self.until_done("Configure", server, lambda s=server:
                                       calls.configure_request(self.plan, s, self.caller()),
                                       reader=configured, incarnation=self.incarnation)
            if reply is None:
                return
            if self.rank == 0 and not reply.initialised and not self.init(server):
                return
        for server in order if self.rank else ():
            make = lambda: calls.request("WaitInit", timeout_ms=2000, **self.caller())
            reply, _ = self.until_done("WaitInit", server, make, reader=versioned)
            if reply is None:
                return
        self.joined = True
        self.world.inits.set()

    def init(self, server, again=False):
        def make():
            request = calls.request("InitParams", version=0, **self.caller())
            for variable, numel in calls.variables(self.plan):
                calls.add_slice(request.param, self.plan, server, variable, numpy.zeros(numel))
            for table in calls.tables(self.plan):
                request.rows.add(variable=table[0], last=True)
            return request
        reply, code = self.until_done("InitParams", server, make, reader=versioned, again=again)
        return reply is not None or code == "FAILED_PRECONDITION"

    def init_again(self):
        """Initial values once more: no push may get lost by them."""
        if self.rank == 0:
            self.init(self.rng.randrange(self.plan["servers"]), again=True)

    def configure_again(self):
        server = self.rng.randrange(self.plan["servers"])
        request = calls.configure_request(self.plan, server, self.caller())
        bad = self.rng.choice(("", "", "optimizer", "trainers", "size"))
        if bad == "optimizer":
            request.optimizer.type = "adam"
        elif bad == "trainers":
            request.trainers += 1
        elif bad == "size":
            request.slice[0].numel += 1
            request.slice[0].dims[0] += self.plan["servers"]
        self.call("Configure", server, request, reader=configured, bad=bad,
                  incarnation=self.incarnation)

    def start_again(self):
        self.joined = False

    def push_too_early(self):
        """A push of an incarnation that has not called Configure. A server that knows the job may
        accept it; then it counts once as any other."""
        made = self.make([self.rng.randrange(self.plan["servers"])])
        for message in made:
            message.early = True
        self.send(made, attempts=1)

    # ---- Pushes ----------------------------------------------------------------------------------

    def make(self, servers):
        """One numbered push, with its own slot, to these servers. Empty: no slots are left."""
        slots = self.world.take_slots()
        if slots is None:
            return []
        parts = "".join(p for p, odds in (("t", 0.9), ("r", 0.7), ("o", 0.5), ("L", 0.15),
                                          ("f", 0.6)) if self.rng.random() < odds)
        for server in servers:
            self.sequence[server] += 1
        return [self.message(server, slots[0], parts) for server in servers]

    def message(self, server, slot, parts):
        request = calls.request("Push", sequence=self.sequence[server], step=slot,
                                learning_rate=1.0, sent=self.sequence, ended=self.ended,
                                **self.caller())
        fill(request.slice, self.plan, server, slot, parts, self.rng)
        return Message(server, request, slot, parts + _fading(request))

    def push(self):
        servers = [i for i in range(self.plan["servers"]) if self.rng.random() < 0.7]
        made = self.make(servers or [self.rng.randrange(self.plan["servers"])])
        if made and self.rng.random() < 0.2:
            pull = made[0].request.pull
            pull.timeout_ms, pull.crc32c = 1000, True
            calls_range(pull, self.plan, made[0].server, "one", 1)
        self.send(made)

    def push_several(self):
        """Pushes that are numbered in one order, and sent in another at once."""
        pushes = [self.make([self.rng.randrange(self.plan["servers"])]) for _ in range(4)]
        made = [message for push in pushes for message in push]
        self.rng.shuffle(made)
        self.send(made)

    def push_again(self):
        if self.recent:
            message = self.rng.choice(self.recent)
            self.attempt([message])

    def push_twice_at_once(self):
        made = self.make([self.rng.randrange(self.plan["servers"])])
        if made:
            self.attempt(made * 2)
            self.send(made)

    def push_impostor(self):
        """Another content under the number of an accepted push."""
        slots = self.recent and self.world.take_slots()
        if slots:
            old = self.rng.choice(self.recent)
            request = type(old.request)()
            request.CopyFrom(old.request)
            del request.slice[:]
            fill(request.slice, self.plan, old.server, slots[0], "t", self.rng)
            message = Message(old.server, request, slots[0], "t")
            message.impostor = True
            self.attempt([message])

    def push_wrong(self):
        server = self.rng.randrange(self.plan["servers"])
        made = self.make([server])
        if not made:
            return
        made[0].bad = spoil(made[0].request, self.rng)
        self.send(made, attempts=3)
        if made[0].bad != "incarnation" and self.rng.random() < 0.5:
            self.sequence[server] -= 1  # the next push has the refused number

    def send(self, made, attempts=GIVE_UP):
        """Sends messages until each has ended. An unfinished push ends the incarnation."""
        left = made
        for attempt in range(attempts):
            left = self.attempt(left)
            if not left or self.world.stop.is_set():
                break
            time.sleep(min(0.2, 0.005 * 2**attempt))
        if left and not made[0].bad:
            self.joined = False
        elif not left:
            self.ended = list(self.sequence)
            self.recent = (self.recent + [m for m in made if m.done == "ok"])[-40:]

    def attempt(self, messages):
        """Sends all messages at once. Returns those that have not ended."""
        started = []
        for i, message in enumerate(messages):
            args = {"trainer": self.rank, "incarnation": message.request.incarnation,
                    "sequence": message.request.sequence, "slot": message.slot,
                    "parts": message.parts, "seconds": CALL_SECONDS}
            args.update({k: v for k, v in (("bad", message.bad), ("impostor", message.impostor),
                                           ("early", message.early)) if v})
            event = self.world.recorder.begin(self.name, "Push", message.server, **args)
            channels = self.others if i % 2 else self.channels
            started.append((message, event, channels[message.server].start(
                "Push", message.request, CALL_SECONDS)))
        return [m for m, event, future in started if not self.finish(m, event, future)]

    def accepted(self, message, event, reply):
        """Records that a server has acknowledged a push. Returns True."""
        self.world.acknowledged(message.server)
        Recorder.end(event, "ok", version=reply.version, duplicate=reply.duplicate,
                     incarnation=reply.server_incarnation)
        message.done = "ok"
        return True

    def finish(self, message, event, future):
        """Records the end of a push. Returns whether it needs no other attempt."""
        reply, code, text = calls.outcome(future)
        if reply is not None:
            return self.accepted(message, event, reply)
        result = result_of(code, message.request.HasField("pull"))
        Recorder.end(event, result, code, text)
        if code == "FAILED_PRECONDITION" and not message.bad and not message.impostor:
            self.joined = False
        message.done = "refused" if code not in RETRY else ""
        return message.done != ""

    def pull_a_bit(self):
        """A few elements of one slice, now or at a version that does not exist yet."""
        server = self.rng.randrange(self.plan["servers"])
        pull = calls.request("Pull", timeout_ms=500, **self.caller())
        variable, numel = self.rng.choice(calls.variables(self.plan))
        calls_range(pull, self.plan, server, variable, min(numel, self.rng.choice((1, 3, 1000))))
        bad = self.rng.choice(("", "", "", "future", "range", "name", "exact"))
        if bad == "future":
            pull.min_version = 1 << 40
        elif bad == "range":
            pull.range[0].numel = numel + 1
        elif bad == "name":
            pull.range[0].variable = "ledgr"
        elif bad == "exact":
            pull.at_version = 1
        self.call("Pull", server, pull, reader=versioned, bad=bad, min_version=pull.min_version)


# ---- Contents of requests ------------------------------------------------------------------------


def fill(to, plan, server, slot, parts, rng):
    """Writes the gradients of a push: each adds one at its slot."""
    calls.add_slice(to, plan, server, "ledger", calls.minus_one_at(plan["slots"], slot))
    if "t" in parts:
        calls.add_slice(to, plan, server, "twin", calls.minus_one_at(plan["slots"], slot))
    if "o" in parts:
        calls.add_slice(to, plan, server, "one", -numpy.ones(1))
    if "L" in parts:
        calls.add_slice(to, plan, server, "large", -numpy.ones(plan["large"], numpy.float32))
    row, column = plans.row_of(slot)
    if "r" in parts and plans.owner_of(row, plan["servers"]) == server:
        calls.add_rows(to, "rows", [row], calls.minus_one_at(plans.DIM, column)[None, :])
    if "f" in parts:
        row = rng.choice(plans.fading_ids(server, plan["servers"]))
        calls.add_rows(to, "fading", [row], -numpy.ones((1, 2), numpy.float32))


def _fading(request):
    """The row of table `fading` in the message, as a suffix of its parts."""
    for piece in request.slice:
        if piece.variable == "fading":
            return f":{int.from_bytes(piece.tensor.content, 'little')}"
    return ""


def spoil(request, rng):
    """Makes a push wrong. Returns how."""
    kind = rng.choice(("shape", "name", "nan", "inf", "rate", "dtype", "offset", "twice", "job",
                       "trainer", "incarnation", "sequence", "checksum", "bytes"))
    last = request.slice[-1]
    if kind == "shape":
        last.tensor.dims[0] += 1
    elif kind == "name":
        last.variable += "x"
    elif kind in ("nan", "inf"):
        value = numpy.float32(kind).tobytes()
        request.slice[0].tensor.content = value + request.slice[0].tensor.content[4:]
    elif kind == "rate":
        request.learning_rate = float("nan")
    elif kind == "dtype":
        request.slice[0].tensor.dtype = 4
    elif kind == "offset":
        request.slice[0].offset += 1
    elif kind == "twice":
        request.slice.append(request.slice[0])
    elif kind == "job":
        request.job += "x"
    elif kind == "trainer":
        request.trainer_id = 99
    elif kind == "incarnation":
        request.incarnation -= 1
    elif kind == "sequence":
        request.sequence = 0
    elif kind == "checksum":
        request.slice[0].tensor.crc32c = 12345
    else:
        request.slice[0].tensor.content = request.slice[0].tensor.content[:-1]
    return kind


def calls_range(pull, plan, server, variable, numel):
    whole = dict(calls.variables(plan))[variable]
    pull.range.add(variable=variable, offset=server * whole, numel=numel)


def versioned(reply):
    return {"version": reply.version}


def configured(reply):
    return {"version": reply.version, "initialised": reply.initialised,
            "restored": reply.restored, "incarnation": reply.server_incarnation}
