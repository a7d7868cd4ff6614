"""Properties that should be true at some time in some run: which states the clients reached.

A property without a hit is a gap of the generator."""

import bisect
import collections

from checkers import accepted, restores_of, wholes
from history import OPEN


class Reached:
    """Counts properties over many histories."""

    def __init__(self):
        self.hits = collections.Counter()
        self.rounds = 0

    def count(self, recorded):
        self.rounds += 1
        for name, find in PROPERTIES.items():
            self.hits[name] += find(recorded)

    def text(self):
        lines = [f"sometimes ({self.rounds} rounds):"]
        lines += [f"  {self.hits[name]:8}  {name}" for name in PROPERTIES]
        never = [name for name in PROPERTIES if not self.hits[name]]
        return "\n".join(lines + [f"never: {', '.join(never) or '-'}"])


def _attempts(recorded):
    """{(server, trainer, incarnation, sequence, slot): attempts} of the pushes."""
    found = collections.defaultdict(list)
    for e in recorded.of("Push"):
        if not e["args"].get("bad"):
            a = e["args"]
            found[e["server"], a["trainer"], a["incarnation"], a["sequence"], a["slot"]].append(e)
    return found


def _across(recorded, faults, want):
    """Pushes whose first attempt is unknown, with the end of a fault of the server before an
    attempt that has `want`."""
    times = {s: sorted(e["end"] for e in recorded.of(*faults, server=s))
             for s in recorded.servers}
    hits = 0
    for (server, *_), events in _attempts(recorded).items():
        last = next((e for e in events if e["result"] == "ok"), None)
        if last is None or events[0]["result"] != "unknown" or not want(last):
            continue
        at = bisect.bisect_left(times[server], events[0]["begin"])
        hits += at < len(times[server]) and times[server][at] < last["end"]
    return hits


def _duplicate(event):
    return event["reply"]["duplicate"]


def _open_during(recorded, *calls):
    """Acknowledged pushes that were open at a moment of these calls."""
    spans = [(e["begin"], e["end"], e["server"]) for e in recorded.of(*calls) if e["end"] != OPEN]
    return sum(any(s in (-1, e["server"]) and e["begin"] < end and begin < e["end"]
                   for begin, end, s in spans)
               for e in recorded.of("Push", results=("ok",)))


def _rolled_back(recorded):
    """Pushes that a restore took back and that were accepted again under their number."""
    hits = 0
    for (server, *_), events in _attempts(recorded).items():
        fresh = [e for e in events if e["result"] == "ok" and not e["reply"]["duplicate"]]
        hits += len(fresh) > 1 and any(r["begin"] > fresh[0]["begin"]
                                       for r in restores_of(recorded, server))
    return hits


def _refusals(recorded, *codes, words=""):
    return sum(e.get("code") in codes and words in e["message"] for e in recorded.of("Push"))


def _fading(recorded, key):
    return sum(len(e["reply"][key]) for e in recorded.of("FetchChanges", results=("ok",))
               if e["args"]["table"] == "fading")


def _during(recorded, fault, *calls):
    """Calls that ended well although they began during a fault of their server."""
    spans = [(e["begin"], e["end"], e["server"]) for e in recorded.of(fault)]
    return sum(any(b <= e["begin"] < end and s == e["server"] for b, end, s in spans)
               for e in recorded.of(*calls, results=("ok",)))


def _reordered(recorded):
    """Pushes that were accepted as new after a push with a higher number."""
    highest, hits = {}, 0
    for e in sorted(recorded.of("Push", results=("ok",)), key=lambda e: e["end"]):
        a = e["args"]
        key = e["server"], a["trainer"], a["incarnation"]
        if accepted(e) and not e["reply"]["duplicate"]:
            hits += a["sequence"] < highest.get(key, 0)
            highest[key] = max(highest.get(key, 0), a["sequence"])
    return hits


def _codes(recorded, call, code):
    return sum(e.get("code") == code for e in recorded.of(call))


KILLS = ("kill", "kill_unheard", "kill_at_ack")

PROPERTIES = {
    "a push was acknowledged": lambda h: len(h.of("Push", results=("ok",))),
    "a push was retried over a kill, and its first attempt counted":
        lambda h: _across(h, KILLS, _duplicate),
    "a push was retried over a kill, and its later attempt counted":
        lambda h: _across(h, KILLS, lambda e: not _duplicate(e)),
    "a server was killed at an acknowledgement": lambda h: sum(
        bool(e["reply"].get("at_ack")) for e in h.of("kill_at_ack")),
    "a push was retried over a stop": lambda h: _across(h, ("stop",), lambda e: True),
    "a push was retried over a restart": lambda h: _across(h, ("restart",), lambda e: True),
    "a push was retried over a broken connection, and its first attempt counted":
        lambda h: _across(h, ("cut", "hold_in", "hold_out"), _duplicate),
    "a repeated push was a duplicate": lambda h: sum(
        e["reply"]["duplicate"] for e in h.of("Push", results=("ok",))),
    "a push was accepted after one with a higher number": _reordered,
    "another content under an old number was a duplicate": lambda h: sum(
        e["reply"]["duplicate"] for e in h.of("Push", results=("ok",))
        if e["args"].get("impostor")),
    "a wrong push was refused": lambda h: sum(
        bool(e["args"].get("bad")) for e in h.of("Push", results=("refused",))),
    "a push of an older incarnation was refused": lambda h: sum(
        e["args"].get("bad") == "incarnation" for e in h.of("Push", results=("refused",))),
    "a push before Configure was refused": lambda h: sum(
        bool(e["args"].get("early")) for e in h.of("Push", results=("refused",))),
    "a push before Configure was accepted": lambda h: sum(
        bool(e["args"].get("early")) for e in h.of("Push", results=("ok",))),
    "a push was refused because pushes were held": lambda h: _refusals(h, "OUT_OF_RANGE"),
    "a push was refused on a full disk": lambda h: _refusals(h, "RESOURCE_EXHAUSTED",
                                                            words="TD2107"),
    "a read succeeded on a full disk": lambda h: _during(h, "full", "Pull"),
    "a server ended with 201 on a full disk": lambda h: sum(
        e["reply"].get("exit") == 201 for e in h.of("full")),
    "a checkpoint was written while a push was open":
        lambda h: _open_during(h, "SaveCheckpoint"),
    "a checkpoint failed": lambda h: sum(e["result"] != "ok" for e in h.of("SaveCheckpoint")),
    "a restore happened while a push was open":
        lambda h: _open_during(h, "RestoreCheckpoint", "restore snapshot"),
    "a restore took a push back, which then counted again": _rolled_back,
    "a server was killed during a restore": lambda h: sum(
        any(r["begin"] < k["begin"] < r["end"] for r in restores_of(h, k["server"]))
        for k in h.of(*KILLS)),
    "a global snapshot was taken": lambda h: len(h.of("snapshot", results=("ok",))),
    "a global snapshot was abandoned": lambda h: len(h.of("snapshot", results=("unknown",))),
    "a global snapshot was restored": lambda h: len(h.of("restore snapshot", results=("ok",))),
    "a whole state was read": lambda h: sum(len(wholes(h, s)) for s in h.servers),
    "a whole state was read with more than 1 MiB": lambda h: h.plan["large"] > 1 << 18 and sum(
        len(wholes(h, s)) for s in h.servers),
    "a pull waited for a version until its deadline": lambda h: _codes(h, "Pull",
                                                                      "DEADLINE_EXCEEDED"),
    "a row was removed by its rules": lambda h: _fading(h, "removed"),
    "a removed row returned by a push": lambda h: _returned(h),
    "a follower had to begin again": lambda h: sum(
        e["reply"]["restart"] for e in h.of("FetchChanges", results=("ok",))),
    "a trainer was replaced": lambda h: max(0, len({
        (e["who"], e["args"]["incarnation"]) for e in h.of("Configure", results=("ok",))})
        - h.plan["trainers"]),
    "initial values were sent twice": lambda h: sum(
        bool(e["args"].get("again")) for e in h.of("InitParams")),
    "all trainers acknowledged a step while a server was down": lambda h: _during(
        h, "kill", "Push") if h.plan["mode"] == "sync" else 0,
    "a sync job made 100 steps": lambda h: h.plan["mode"] == "sync" and any(
        w["reply"]["version"] >= 100 for s in h.servers for w in wholes(h, s)),
    "rows moved to another server": lambda h: len(h.of("rebalance", results=("ok",))),
    "a move was broken off": lambda h: len(h.of("rebalance", "drain", results=("unknown",))),
    "a push was open while rows moved": lambda h: _open_during(h, "rebalance", "drain"),
    "a server that needs its trainers' values was killed": lambda h: len(h.of(
        *KILLS)) if h.plan["workload"] == "replayable" else 0,
    "a primary lost its directory": lambda h: sum(
        e["args"]["primary"] for e in h.of("lose", results=("ok",))),
    "a standby lost its directory": lambda h: sum(
        not e["args"]["primary"] for e in h.of("lose", results=("ok",))),
    "a member that did not answer was replaced": lambda h: sum(
        e["args"]["signal"] == 19 for e in h.of("lose", "kill_member", results=("ok",))),
    "a push was open while a primary was lost": lambda h: _open_during(h, "lose", "kill_member"),
    "rows were outside memory": lambda h: "--table_memory_mb=1" in h.plan["flags"],
}


def _returned(recorded):
    """Rows that a follower received after it was told to remove them."""
    hits = 0
    for server in recorded.servers:
        gone = set()
        for e in recorded.of("FetchChanges", server=server, results=("ok",)):
            if e["args"]["table"] == "fading":
                hits += len(gone & set(e["reply"]["rows"]))
                gone = (gone | set(e["reply"]["removed"])) - set(e["reply"]["rows"])
    return hits
