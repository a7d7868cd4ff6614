"""Checkers of a history. Each is a pure function that returns violations of one promise.

They know docs/project/guarantees.md and the plan of the run, not the code of Tandem. The constants
are headings of that page. In mode a_sync the state of a server is the set of pushes that it applied.
Each whole read must have all pushes that were acknowledged before, and none that was refused or that
was sent later."""

import bisect
import collections

import plan as plans
from history import OPEN, bits, slots_of

Violation = collections.namedtuple("Violation", "promise text events")

ATOMIC = "A push is atomic"
ONCE = "At most once"
EXACTLY = "Exactly once (logged)"
MOVES = "Moves in asynchronous mode"
REPLAYABLE = "Exactly once (replayable)"
CHECKPOINT = "Server checkpoints"
SNAPSHOT = "Global snapshot"
SYNC = "Killed trainers and pservers (sync)"
SILENT = "Silent trainers"
SEEDS = "Every seed of the simulator"  # no caller learns of a version that a crash takes back
FULL = "Full disk"
DEADLINE = "Every wait has a deadline"
HOSTILE = "Hostile bytes"
STRANGERS = "One job for all processes"
STANDBY = "Standby servers"

# What is broken if an acknowledged push of this workload is lost.
STEPS = {"raw": SYNC, "moves": "Moves in sync mode", "replayable": REPLAYABLE, "standbys": STANDBY}
WORKLOADS = {"raw": EXACTLY, "moves": MOVES, "replayable": REPLAYABLE, "standbys": STANDBY}

SLACK_NS = 10_000_000_000  # of the test's own threads on a busy machine


def wholes(history, server):
    """The whole reads of a server that succeeded."""
    return [e for e in history.of("Pull", server=server, results=("ok",)) if e["args"].get("whole")]


def pushed(history, server):
    return history.of("Push", server=server)


def accepted(event):
    """Whether the reply says that the content of the push is applied."""
    copy = event["args"].get("impostor") and event["reply"].get("duplicate")
    return event["result"] == "ok" and not copy and not event["args"].get("bad")


def possible(event):
    """Whether the content of the push may be applied."""
    if event["args"].get("bad") or event["result"] == "refused":
        return False
    return event["result"] == "unknown" or accepted(event)


def identity(event):
    """By which a server knows a push. After a restore, it may be of another content (impostor)."""
    args = event["args"]
    return args["trainer"], args["incarnation"], args["sequence"]


# ---- States of a server in mode a_sync -----------------------------------------------------------


class Sums:
    """The union of the bit sets of events up to a time."""

    def __init__(self, pairs):
        self._times, self._sums, union = [], [], 0
        for time, slot in sorted(pairs):
            union |= 1 << slot
            self._times.append(time)
            self._sums.append(union)

    def before(self, time):
        at = bisect.bisect_left(self._times, time)
        return self._sums[at - 1] if at else 0


class Epoch:
    """The states after one restore (or after the start) until the next restore."""

    def __init__(self, history, server, restore, must, may):
        self.begin = restore["end"] if restore else -1
        since = restore["begin"] if restore else -1
        self._must, self._may = must, may
        events = pushed(history, server)
        replaced = {identity(e) for e in events if e["args"].get("impostor") and possible(e)}
        self._acked = Sums((e["end"], e["args"]["slot"]) for e in events
                           if accepted(e) and e["begin"] > self.begin
                           and not (e["reply"]["duplicate"] and identity(e) in replaced))
        self._open = Sums((e["begin"], e["args"]["slot"]) for e in events
                          if possible(e) and e["end"] > since)

    def bounds(self, begin, end):
        """(must, may) of a state that was read between begin and end."""
        return self._must | self._acked.before(begin), self._may | self._open.before(end)


def restores_of(history, server):
    """The restores that changed this server, by begin. Attempts that failed are part of the next
    one that succeeded: the test repeats a restore until it does."""
    found, begin = [], None
    for event in history.of("RestoreCheckpoint", "restore snapshot"):
        if event["server"] not in (server, -1) or event["result"] == "refused":
            continue
        begin = event["begin"] if begin is None else begin
        if event["result"] == "ok":
            found.append({**event, "begin": begin})
            begin = None
    if begin is not None:
        found.append({"begin": begin, "end": OPEN, "call": "restore", "reply": {}, "n": -1})
    return found


def between_restores(history, server):
    """(end of a restore, begin of the next): times in which no restore changed the server."""
    restores = restores_of(history, server)
    return list(zip([-1] + [r["end"] for r in restores], [r["begin"] for r in restores] + [OPEN]))


def saved_state(history, server, restore, epochs):
    """(must, may) of the state to which a restore returned."""
    before = restore["begin"]
    if restore["call"] == "restore snapshot":
        number = restore["reply"].get("number")
        saves = [e for e in history.of("snapshot") if e["begin"] < before]
        right = [e for e in saves if e["reply"].get("number") == number]
        right = right or [e for e in saves if e["result"] != "ok"]
        end = max((e["end"] for e in right), default=before)
    else:  # servers also write checkpoints by themselves, so it may be a later one
        saves = history.of("SaveCheckpoint", server=server, results=("ok",))
        right = [e for e in saves if e["end"] < before][-1:]
        end = before
    begin = min((e["begin"] for e in right), default=-1)
    least = epoch_at(epochs, begin)
    if restore["call"] != "restore snapshot" and epochs[-1].begin > begin:
        # A restore followed the checkpoint, and the store has the restored state since then.
        least = epochs[-1]
        begin = least.begin
    return (least.bounds(begin, begin)[0],
            epoch_at(epochs, min(end, before)).bounds(begin, min(end, before))[1])


def epoch_at(epochs, time):
    """The newest epoch that began before a time."""
    right = [e for e in epochs if e.begin < time]
    return right[-1] if right else epochs[0]


def epochs_of(history, server):
    epochs = [Epoch(history, server, None, 0, 0)]
    restores = restores_of(history, server)
    for restore in restores:
        if restore["end"] == OPEN:
            break
        must, may = saved_state(history, server, restore, epochs)
        epochs.append(Epoch(history, server, restore, must, may))
    return epochs, restores


def check_sets(history):
    """No acknowledged push is lost, and no push is in a state before it was sent or after it was
    refused."""
    if history.plan["mode"] != "a_sync":
        return []
    found = []
    for server in history.servers:
        epochs, restores = epochs_of(history, server)
        for read in wholes(history, server):
            if any(r["begin"] < read["end"] and r["end"] > read["begin"] for r in restores):
                continue
            epoch = epoch_at(epochs, read["begin"])
            must, may = epoch.bounds(read["begin"], read["end"])
            has = int(read["reply"]["ledger"], 16)
            back = CHECKPOINT if epoch.begin > 0 else WORKLOADS[history.plan["workload"]]
            found += _lost_and_extra(history, server, read, must & ~has, has & ~may, back)
    return found


def _lost_and_extra(history, server, read, lost, extra, promise):
    found = []
    for slot in slots_of(lost, 3):
        found.append(Violation(promise, f"push of slot {slot} was acknowledged by server {server}, "
                               "and a later read does not have it",
                               events_of(history, server, slot) + [read]))
    for slot in slots_of(extra, 3):
        events = events_of(history, server, slot)
        bad = [e["args"]["bad"] for e in events if e["args"].get("bad")]
        text = f"was refused or wrong ({bad})" if events else "was never sent to it"
        found.append(Violation(ATOMIC if events else promise,
                               f"a read of server {server} has slot {slot}, whose push {text}, or "
                               "which a restore took back", events + [read]))
    return found


def events_of(history, server, slot):
    return [e for e in pushed(history, server) if e["args"]["slot"] == slot]


# ---- At most once, and atomic --------------------------------------------------------------------


def check_doubled(history):
    """Every element of a ledger is zero or one."""
    found = []
    for server in history.servers:
        for read in wholes(history, server):
            for name, value in read["reply"]["odd"].items():
                slot = int(name.split()[1])
                found.append(Violation(
                    ONCE, f"{name} is {value} on server {server}: the push was applied {value} "
                    "times", events_of(history, server, slot) + [read]))
    return found


def check_replies(history):
    """A server replies once that a push is new, unless a restore took the push back."""
    found = []
    for server in history.servers:
        restores, first = restores_of(history, server), {}
        for event in sorted(pushed(history, server), key=lambda e: e["end"]):
            if event["result"] != "ok" or event["reply"]["duplicate"]:
                continue
            key = identity(event)
            old = first.get(key)
            first[key] = event
            if old and not any(r["end"] > old["begin"] and r["begin"] < event["end"]
                               for r in restores):
                found.append(Violation(ONCE, f"server {server} accepted {key} twice as new",
                                       [old, event]))
    return found


def check_wrong(history):
    """A wrong push or configuration is refused."""
    found = []
    for event in history.of("Push", "Configure", "Pull", results=("ok",)):
        bad = event["args"].get("bad")
        if bad and bad != "exact":
            promise = {"Push": ATOMIC, "Configure": STRANGERS, "Pull": HOSTILE}[event["call"]]
            found.append(Violation(promise, f"{event['call']} with wrong {bad} was accepted",
                                   [event]))
    return found


def check_torn(history):
    """All slices and rows of one reply are of one state, which has `version` updates."""
    found = []
    if history.plan["workload"] != "raw":  # a read is of several replies
        return found
    for server in history.servers:
        parts = parts_of(history, server)
        rows = bits(s for s in range(history.plan["slots"])
                    if plans.owner_of(plans.row_of(s)[0], history.plan["servers"]) == server)
        for read in wholes(history, server):
            found += [Violation(ATOMIC, f"server {server}: {text}", [read])
                      for text in _torn(read["reply"], parts, rows, history.plan["mode"])]
    return found


def parts_of(history, server):
    """{part: slots of the pushes that have this part beside the ledger}."""
    if history.plan["mode"] == "sync":  # a step always has all parts
        return dict.fromkeys("troL", (1 << history.plan["slots"]) - 1)
    parts = dict.fromkeys("troL", 0)
    for event in pushed(history, server):
        for part in parts:
            if part in event["args"]["parts"]:
                parts[part] |= 1 << event["args"]["slot"]
    return parts


def _torn(reply, parts, rows, mode):
    """What does not fit together in one reply."""
    ledger = int(reply["ledger"], 16)
    asked = int(reply.get("asked", "0"), 16)
    wants = {"twin": ledger & parts["t"], "rows": ledger & parts["r"] & rows & asked}
    for name, want in wants.items():
        differ = want ^ int(reply[name], 16)
        if differ:
            yield f"{name} and ledger differ at slots {slots_of(differ)}"
    if reply["odd"]:
        return  # check_doubled says it
    ones, large = (ledger & parts["o"]).bit_count(), (ledger & parts["L"]).bit_count()
    if reply["one"] != ones:
        yield f"variable one has {reply['one']} pushes, ledger {ones}"
    if reply["large"] != [large, large]:
        yield f"variable large has {reply['large']} pushes at its elements, ledger {large}"
    if mode == "a_sync" and ledger.bit_count() != reply["version"]:
        yield f"version {reply['version']} has {ledger.bit_count()} pushes"


# ---- Versions ------------------------------------------------------------------------------------

VERSIONED = ("Pull", "Push", "PullTable", "GetStatus", "PullState", "FetchChanges", "Configure",
             "WaitInit")


def check_versions(history):
    """The version of a server never goes back, kills included, except by a restore."""
    found = []
    if history.plan["workload"] != "raw":  # the lowest of several servers
        return found
    for server in history.servers:
        events = [e for e in history.of(*VERSIONED, server=server, results=("ok",))
                  if "version" in e["reply"] and not e["reply"].get("restart")]
        for begin, end in between_restores(history, server):
            between = [e for e in events if begin < e["begin"] and e["end"] < end]
            found += [Violation(SEEDS, f"server {server} went from version "
                                f"{old['reply']['version']} back to {new['reply']['version']}",
                                [old, new]) for old, new in _backwards(between)]
    return found


def _backwards(events):
    """Pairs of events of which the later one has a lower version. `events`: by begin."""
    ends, highest, at = sorted(events, key=lambda e: e["end"]), None, 0
    for event in events:
        while at < len(ends) and ends[at]["end"] < event["begin"]:
            if highest is None or ends[at]["reply"]["version"] > highest["reply"]["version"]:
                highest = ends[at]
            at += 1
        if highest is not None and event["reply"]["version"] < highest["reply"]["version"]:
            yield highest, event


def check_pulled_versions(history):
    """A pull has at least the version that it requires."""
    return [Violation(SYNC, f"a pull of version {e['args']['min_version']} or later got version "
                      f"{e['reply']['version']}", [e])
            for e in history.of("Pull", results=("ok",))
            if e["reply"]["version"] < e["args"].get("min_version", 0)]


# ---- Sync mode -----------------------------------------------------------------------------------


def check_steps(history):
    """Sync: version v has exactly the pushes of the steps before v, of all trainers."""
    if history.plan["mode"] != "sync":
        return []
    found, trainers = [], history.plan["trainers"]
    for server in history.servers:
        begun = {}
        for event in pushed(history, server):
            if not event["args"].get("bad"):
                begun.setdefault(event["args"]["slot"], event["begin"])
        for read in wholes(history, server):
            version = read["reply"]["version"]
            want = (1 << version * trainers) - 1
            differ = want ^ int(read["reply"]["ledger"], 16)
            for slot in slots_of(differ, 2):
                text = "lacks" if want >> slot & 1 else "has"
                found.append(Violation(
                    STEPS[history.plan["workload"]], f"version {version} of server {server} {text} the push of trainer "
                    f"{slot % trainers} for step {slot // trainers}",
                    events_of(history, server, slot) + [read]))
            for slot in range((version - 1) * trainers if version else 0, version * trainers):
                if begun.get(slot, OPEN) > read["end"]:
                    found.append(Violation(SILENT, f"server {server} completed step {version - 1} "
                                           f"without trainer {slot % trainers}", [read]))
    return found


def _acknowledged(events, trainers):
    """[(time at which all pushes of a step were acknowledged, step)], by time. A push of a step may
    consist of two messages."""
    parts = collections.defaultdict(dict)
    for event in events:
        if accepted(event):
            found = parts[event["args"]["slot"]]
            for part in "to":
                if part in event["args"]["parts"]:
                    found[part] = min(found.get(part, OPEN), event["end"])
    ends = {slot: max(found.values()) for slot, found in parts.items() if len(found) == 2}
    return sorted((max(ends.get(step * trainers + t, OPEN) for t in range(trainers)), step)
                  for step in {slot // trainers for slot in ends})


def check_acknowledged_steps(history):
    """Sync: a state that is read after all trainers' pushes of a step were acknowledged has the
    step."""
    if history.plan["mode"] != "sync":
        return []
    found, trainers = [], history.plan["trainers"]
    for server in history.servers:
        for begin, end in between_restores(history, server):
            done = _acknowledged([e for e in pushed(history, server) if e["begin"] > begin],
                                 trainers)
            for read in wholes(history, server):
                late = [step for time, step in done if begin < read["begin"] and read["end"] < end
                        and time < read["begin"] and step >= read["reply"]["version"]]
                if late:
                    events = [e for t in range(trainers)
                              for e in events_of(history, server, late[-1] * trainers + t)]
                    found.append(Violation(EXACTLY, f"all pushes of step {late[-1]} were "
                                           f"acknowledged, and server {server} is at version "
                                           f"{read['reply']['version']} later", events + [read]))
    return found


# ---- All calls -----------------------------------------------------------------------------------


def check_deadlines(history):
    """Every call ends by its deadline."""
    return [Violation(DEADLINE, f"{e['call']} with a deadline of {e['args']['seconds']} s took "
                      f"{(e['end'] - e['begin']) / 1e9:.1f} s", [e])
            for e in history.events if e["end"] != OPEN and "seconds" in e["args"]
            and e["end"] - e["begin"] > e["args"]["seconds"] * 1e9 + SLACK_NS]


def check_errors(history):
    """No input crashes a server, and no call ends with an error that has no meaning."""
    found = []
    for event in history.events:
        if event["call"] == "died":
            found.append(Violation(HOSTILE, f"server {event['server']} ended by itself: "
                                   f"{event['args']}", [event]))
        if event.get("code") in ("INTERNAL", "UNKNOWN") and "RST_STREAM" not in event["message"]:
            found.append(Violation(HOSTILE, f"{event['call']} failed with {event['code']}: "
                                   f"{event['message']}", [event]))
    return found


def check_full_disk(history):
    """A push that is refused for want of room names the cause (TD2107)."""
    found = []
    for event in history.of("Push"):
        if event.get("code") != "RESOURCE_EXHAUSTED":
            continue
        if not any(text in event["message"] for text in ("TD2107", "message_memory", "TD60")):
            found.append(Violation(FULL, f"a push was refused without a name: {event['message']}",
                                   [event]))
    return found
