"""Clients that only read: whole states of a server, tables, and the stream of changes."""

import numpy

import calls
import plan as plans
from clients import Client


class Reader(Client):
    """Reads whole states of servers, with each kind of call that reads."""

    def __init__(self, world, number):
        super().__init__(world, f"reader {number}")
        self.pause = 0.05

    def step(self):
        if not self.world.inits.wait(0.1):
            return
        server = self.rng.randrange(self.plan["servers"])
        kind = self.rng.choices((self.pull_all, self.pull_table, self.status, self.pull_state),
                                (10, 4, 2, 1))[0]
        kind(server)
        if self.rng.random() < 0.02:
            self.connect()

    def pull_all(self, server, seconds=2.0):
        """All elements of a server at one version, with all rows that pushes can have changed."""
        pull = calls.request("Pull", job=self.plan["job"], observer=True, timeout_ms=1500)
        for variable, numel in calls.variables(self.plan):
            pull.range.add(variable=variable, offset=server * numel, numel=numel)
        asked = self.world.slots_used
        ids = [plans.row_of(slot)[0] for slot in range(0, asked, plans.DIM)]
        owned = [n for n, row in enumerate(ids)
                 if plans.owner_of(row, self.plan["servers"]) == server]
        if owned:
            pull.rows.add(variable="rows", id=[ids[n] for n in owned])
        return self.call("Pull", server, pull, seconds, whole=True,
                         reader=lambda reply: whole_state(reply, self.plan, owned))

    def pull_table(self, server, table=None, seconds=2.0):
        """All rows of a table of one server, if one page has them."""
        table = table or self.rng.choice([name for name, *_ in calls.tables(self.plan)])
        request = calls.request("PullTable", job=self.plan["job"], variable=table,
                                bucket_begin=plans.first_bucket(server, self.plan["servers"]))
        return self.call("PullTable", server, request, seconds, table=table, reader=stored_rows)

    def status(self, server):
        self.call("GetStatus", server, calls.request("GetStatus"), reader=lambda reply: {
            "version": reply.version, "incarnation": reply.server_incarnation,
            "cuts": list(reply.cut)})

    def pull_state(self, server):
        request = calls.request("PullState", job=self.plan["job"])
        self.call("PullState", server, request, reader=lambda reply: {"version": reply.version})


def whole_state(reply, plan, owned):
    """What the checkers need of a whole state."""
    found = {"version": reply.version, "incarnation": reply.server_incarnation, "odd": {}}
    for piece in reply.slice[:2]:
        taken, odd = calls.applied(calls.array(piece))
        found[piece.variable] = f"{taken:x}"
        found["odd"].update({f"{piece.variable} {k}": v for k, v in odd.items()})
    found["one"] = float(calls.array(reply.slice[2])[0])
    large = calls.array(reply.slice[3])
    found["large"] = [float(large.min()), float(large.max())]
    flat = numpy.zeros(plan["slots"] + plans.DIM, numpy.float32)
    if owned:
        values = calls.array(reply.slice[4]).reshape(-1, plans.DIM)
        for n, row in zip(owned, values):
            flat[n * plans.DIM:(n + 1) * plans.DIM] = row
        found["asked"] = f"{_asked(owned):x}"
    taken, odd = calls.applied(flat)
    found["rows"] = f"{taken:x}"
    found["odd"].update({f"rows {k}": v for k, v in odd.items()})
    return found


def _asked(owned):
    """The slots whose rows were pulled."""
    found = 0
    for n in owned:
        found |= ((1 << plans.DIM) - 1) << (n * plans.DIM)
    return found


def stored_rows(reply):
    values = numpy.frombuffer(reply.rows.content, "<f4")
    width = values.size // max(1, len(reply.rows.id))
    whole = reply.next_bucket >= plans.ROW_BUCKETS
    return {"version": reply.version, "all": whole, "rows": {
        str(row): values[i * width:(i + 1) * width].tolist()
        for i, row in enumerate(reply.rows.id)}}


class Follower(Client):
    """Follows one table on one server by FetchChanges, and keeps what it received."""

    def __init__(self, world, server, table):
        super().__init__(world, f"follower {server} {table}")
        self.server, self.table, self.pause = server, table, 0.05
        self.position, self.missing, self.current = None, [], False

    def step(self):
        if self.world.inits.wait(0.1):
            self.fetch(self.rng.choice((0, 50)))

    def fetch(self, wait_ms):
        """One request. Returns whether the follower has all rows up to the server's version."""
        request = calls.request("FetchChanges", job=self.plan["job"], table=self.table,
                                wait_ms=wait_ms, bytes_max=self.rng.choice((0, 100, 4000)))
        if self.position is not None:
            request.position.CopyFrom(self.position)
            request.bucket.extend(self.missing[:self.rng.choice((16, 1024))])
        reply, _ = self.call("FetchChanges", self.server, request, table=self.table,
                             reader=self.take)
        return reply is not None and self.current

    def take(self, reply):
        """Continues at the position of the reply. Returns what the checkers need."""
        if self.position is None or reply.restart:
            self.missing = [b for s in reply.served for b in range(s.begin, s.end)]
        self.position = reply.position
        got = set(reply.bucket)
        self.missing = [b for b in self.missing if b not in got]
        self.current = (not self.missing and reply.position.version >= reply.version
                        and reply.position.until <= reply.position.version)
        return {**changes(reply), "current": self.current}


def changes(reply):
    values = numpy.frombuffer(reply.values, "<f4").reshape(-1, max(1, reply.dim))
    return {"version": reply.version, "position": reply.position.version,
            "until": reply.position.until, "restart": reply.restart,
            "rows": {str(row): values[i].tolist() for i, row in enumerate(reply.id)},
            "removed": [str(row) for row in reply.removed], "buckets": list(reply.bucket)}

