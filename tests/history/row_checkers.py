"""Checkers of table rows, of the change stream and of global snapshots (checkers.py)."""

import collections

import plan as plans
from checkers import SNAPSHOT, Violation, possible, pushed, restores_of, wholes
from history import OPEN

RULES = "Table rules"
STREAM = "Change stream"


def pushes_of_rows(history, server, table):
    """{row: events of the pushes that may have changed it}."""
    found = collections.defaultdict(list)
    for event in pushed(history, server):
        if not possible(event):
            continue
        args = event["args"]
        if table == "rows" and "r" in args["parts"]:
            row = plans.row_of(args["slot"])[0]
            if plans.owner_of(row, history.plan["servers"]) == server:
                found[row].append(event)
        if table == "fading" and ":" in args["parts"]:
            found[int(args["parts"].split(":")[1])].append(event)
    return found


def _restored(restores, begin, end):
    return any(r["end"] > begin and r["begin"] < end for r in restores)


def tables_read(history, server, table):
    return [e for e in history.of("PullTable", server=server, results=("ok",))
            if e["args"]["table"] == table and e["reply"]["all"]]


def check_rows_return(history):
    """A row that was absent returns only by a push, and no row exists without one."""
    found = []
    for server in history.servers:
        restores = restores_of(history, server)
        for table in ("rows", "fading"):
            pushes = pushes_of_rows(history, server, table)
            reads = tables_read(history, server, table)
            for old, new in zip(reads, reads[1:]):
                if old["end"] > new["begin"] or _restored(restores, old["begin"], new["end"]):
                    continue
                for row in set(new["reply"]["rows"]) - set(old["reply"]["rows"]):
                    if not any((p["end"] > old["begin"] or _waits(history, p, old))
                               and p["begin"] < new["end"] for p in pushes[int(row)]):
                        found.append(Violation(
                            RULES, f"row {row} of table {table} on server {server} was absent, and "
                            "came back without a push", [old, new]))
    return found


def _waits(history, push, read):
    """Sync: whether the step of a push was not complete at a read."""
    return history.plan["mode"] == "sync" and (
        push["args"]["slot"] // history.plan["trainers"] >= read["reply"]["version"])


def check_rows_stay(history):
    """A row of a table without rules stays. A row with `ttl` stays until its ttl, and goes after
    it."""
    found = []
    for server in history.servers:
        restores = restores_of(history, server)
        for table in ("rows", "fading"):
            pushes = pushes_of_rows(history, server, table)
            for read in tables_read(history, server, table):
                for row, events in pushes.items():
                    there = str(row) in read["reply"]["rows"]
                    if not there and _must_stay(history, server, table, events, read, restores):
                        found.append(Violation(RULES, f"row {row} of table {table} is absent on "
                                               f"server {server}", [*events[-3:], read]))
                    if there and table == "fading" and _must_go(events, read, restores):
                        found.append(Violation(RULES, f"row {row} of table fading outlived its ttl "
                                               f"on server {server}", [*events[-3:], read]))
    return found


def _must_stay(history, server, table, events, read, restores):
    """Whether an acknowledged push proves that the row exists at the read."""
    acked = [e for e in events if e["result"] == "ok" and e["end"] < read["begin"]
             and not _restored(restores, -1, read["end"])]
    if table == "fading":  # a duplicate says nothing of the time of its update
        acked = [e for e in acked if not e["reply"]["duplicate"]]
    if history.plan["mode"] == "sync":  # the update comes when all trainers have pushed the step
        acked = [e for e in acked if e["args"]["slot"] // history.plan["trainers"]
                 < read["reply"]["version"]]
    if table == "rows" or not acked:
        return bool(acked)
    # The update came after all versions that were known before the push began.
    known = [e["reply"]["version"] for e in pushed(history, server)
             if e["result"] == "ok" and e["end"] < acked[-1]["begin"]]
    return bool(known) and read["reply"]["version"] - max(known) <= plans.FADING_TTL


def _must_go(events, read, restores):
    """Whether every push of the row is older than its ttl and one check after it."""
    before = [e for e in events if e["begin"] < read["end"]]
    if any(e["result"] != "ok" for e in before) or _restored(restores, -1, read["end"]):
        return False
    last = max((e["reply"]["version"] for e in before), default=0)
    return read["reply"]["version"] - last > plans.FADING_TTL + plans.FADING_EVERY


# ---- Change stream -------------------------------------------------------------------------------


class Followed:
    """The rows that a program has which applies the changes of a follower."""

    def __init__(self):
        self.rows, self.version = {}, 0

    def apply(self, event):
        reply = event["reply"]
        if reply["restart"]:
            self.rows = {}
        for bucket in reply["buckets"]:
            self.rows = {r: v for r, v in self.rows.items()
                         if plans.bucket_of(int(r)) != bucket or r in reply["rows"]}
        for row in reply["removed"]:
            self.rows.pop(row, None)
        self.rows.update(reply["rows"])
        self.version = reply["position"]


def check_followers(history):
    """At the end, followed rows are those of the table, if the follower has the version."""
    found = []
    for server in history.servers:
        for table in ("rows", "fading"):
            followed, last = Followed(), None
            for event in history.of("FetchChanges", server=server, results=("ok",)):
                if event["args"]["table"] == table:
                    followed.apply(event)
                    last = event
            reads = tables_read(history, server, table)
            if last is None or not reads or not last["reply"].get("current"):
                continue
            read = reads[-1]
            if read["reply"]["version"] != followed.version:
                continue
            want = read["reply"]["rows"]
            differ = [r for r in sorted(set(want) | set(followed.rows))
                      if want.get(r) != followed.rows.get(r)]
            if differ:
                found.append(Violation(
                    STREAM, f"a follower of table {table} of server {server} has "
                    f"{followed.rows.get(differ[0])} for row {differ[0]}, the table has "
                    f"{want.get(differ[0])} ({len(differ)} rows differ)", [last, read]))
    return found


def check_tombstones(history):
    """A row that a follower was told to remove returns only by a push."""
    found = []
    for server in history.servers:
        restores = restores_of(history, server)
        for table in ("rows", "fading"):
            pushes, gone = pushes_of_rows(history, server, table), {}
            for event in history.of("FetchChanges", server=server, results=("ok",)):
                if event["args"]["table"] != table:
                    continue
                if event["reply"]["restart"]:
                    gone = {}
                for row in event["reply"]["rows"]:
                    old = gone.pop(row, None)
                    if old and not _restored(restores, old["begin"], event["end"]) and not any(
                            p["end"] > old["begin"] and p["begin"] < event["end"]
                            for p in pushes[int(row)]):
                        found.append(Violation(
                            STREAM, f"row {row} of table {table} of server {server} was removed, "
                            "and the stream brings it back without a push", [old, event]))
                gone.update({row: event for row in event["reply"]["removed"]
                             if row not in event["reply"]["rows"]})
    return found


# ---- Global snapshots ----------------------------------------------------------------------------


def check_snapshots(history):
    """After a restore of a global snapshot, each acknowledged push is on all of its servers or on
    none, unless it was sent again since."""
    found = []
    for restore in history.of("restore snapshot", results=("ok",)):
        reads, slots = {}, collections.defaultdict(dict)
        later = [r["begin"] for s in history.servers for r in restores_of(history, s)
                 if r["begin"] > restore["end"]]
        for server in history.servers:
            reads[server] = next((w for w in wholes(history, server)
                                  if w["begin"] > restore["end"]
                                  and w["end"] < min(later, default=OPEN)), None)
        if None in reads.values():
            continue
        for event in history.of("Push"):
            if possible(event) or event["result"] == "ok":
                slots[event["args"]["slot"]].setdefault(event["server"], []).append(event)
        slots = {slot: each for slot, each in slots.items()
                 if not _divided(history, restore, [e for es in each.values() for e in es])}
        found += _torn_cut(restore, reads, slots)
    return found


def _divided(history, restore, events):
    """Whether an earlier restore may have taken a push back on some of its servers only: it was of
    one server, or the push was open meanwhile."""
    for old in history.of("RestoreCheckpoint", "restore snapshot", results=("ok", "unknown")):
        if old["begin"] >= restore["begin"]:
            break
        alone = old["server"] >= 0
        if any(e["begin"] < old["end"] and (alone or e["end"] > old["begin"]) for e in events):
            return True
    return False


def _torn_cut(restore, reads, slots):
    found = []
    for slot, by_server in slots.items():
        events = [e for each in by_server.values() for e in each]
        if len(by_server) < 2 or any(e["end"] > restore["begin"] for e in events):
            continue
        # A client that repeats a push after a restore may repeat it on one server only.
        fresh = [[e for e in each if e["result"] == "ok" and not e["reply"]["duplicate"]]
                 for each in by_server.values()]
        if any(len(each) > 1 for each in fresh) or not all(
                any(e["result"] == "ok" for e in each) for each in by_server.values()):
            continue
        has = {s: int(reads[s]["reply"]["ledger"], 16) >> slot & 1 for s in by_server}
        if len(set(has.values())) > 1:
            found.append(Violation(SNAPSHOT, f"restored snapshot {restore['reply'].get('number')} "
                                   f"has the push of slot {slot} on some of its servers: {has}",
                                   [*events, restore, *reads.values()]))
    return found

