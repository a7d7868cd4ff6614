"""A recorded history: the plan of a run, and one event for each call and each fault.

An event is a dict with these keys:
  n       number in the order of `begin`
  who     client that made the call: "trainer 0", "reader 1", "operator"
  call    name of the RPC, or of the fault
  server  index of the server; -1: no single server
  begin   time before the request was sent, nanoseconds of a monotonic clock
  end     time after the reply arrived; OPEN: it never arrived
  result  "ok", "refused" (the promise: nothing was changed) or "unknown" (perhaps it has an effect)
  code    status code, if the call failed
  message text of the error
  args    arguments that checkers need
  reply   parts of the reply that checkers need

Sets of pushes are bit sets: bit k of an int stands for slot k. Files have them as hexadecimal text.
"""

import json
import threading
import time

OPEN = 1 << 62  # the end of a call without an end

# Errors with which a server says that it changed nothing (proto/pserver.proto).
REFUSALS = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "DATA_LOSS",
            "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED")


def now():
    return time.monotonic_ns()


def bits(slots):
    """The bit set of these slots."""
    found = 0
    for slot in slots:
        found |= 1 << slot
    return found


def slots_of(found, most=8):
    """The first `most` slots of a bit set."""
    slots = []
    while found and len(slots) < most:
        low = found & -found
        slots.append(low.bit_length() - 1)
        found ^= low
    return slots


def result_of(code, with_pull=False):
    """The result of a call that failed with `code`. A failed pull says nothing of its push."""
    return "refused" if code in REFUSALS and not with_pull else "unknown"


class Recorder:
    """Collects events. Any thread may call it."""

    def __init__(self, plan):
        self.plan = plan
        self._lock = threading.Lock()
        self._events = []

    def begin(self, who, call, server=-1, **args):
        event = {"who": who, "call": call, "server": server, "begin": now(), "end": OPEN,
                 "result": "unknown", "args": args, "reply": {}}
        with self._lock:
            self._events.append(event)
        return event

    @staticmethod
    def end(event, result, code="", message="", **reply):
        event["reply"] = reply
        if code:
            event["code"], event["message"] = code, message[:300]
        event["result"] = result
        event["end"] = now()

    def history(self):
        """A copy of the history. The calls that are still open stay open in the copy."""
        with self._lock:
            events = [dict(event) for event in self._events]
        events.sort(key=lambda event: event["begin"])
        for n, event in enumerate(events):
            event["n"] = n
        return History(self.plan, events)


class History:
    """What the checkers receive. They do not change it."""

    def __init__(self, plan, events):
        self.plan, self.events = plan, events

    def of(self, *calls, server=None, results=("ok", "refused", "unknown")):
        """The events of these calls, by begin."""
        return [e for e in self.events if e["call"] in calls and e["result"] in results
                and (server is None or e["server"] == server)]

    @property
    def servers(self):
        return range(self.plan["servers"])

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"plan": self.plan}) + "\n")
            for event in self.events:
                file.write(json.dumps(event, default=str) + "\n")


def load(path):
    with open(path, encoding="utf-8") as file:
        plan = {"workload": "raw", **json.loads(file.readline())["plan"]}
        return History(plan, [json.loads(line) for line in file])


def line_of(event, start):
    """An event in one line, for excerpts and for people."""
    end = "open" if event["end"] == OPEN else f"{(event['end'] - start) / 1e6:.1f}"
    parts = [f"#{event['n']} {(event['begin'] - start) / 1e6:.1f}..{end} ms",
             f"{event['who']}: {event['call']}"]
    if event["server"] >= 0:
        parts.append(f"server {event['server']}")
    shown = {k: v for k, v in {**event["args"], **event["reply"]}.items() if k not in ("ids",)}
    parts += [f"{k}={_short(v)}" for k, v in shown.items()]
    error = f"{event.get('code', '')} {event.get('message', '')}"
    parts.append(f"-> {event['result']} {error}".rstrip())
    return " ".join(parts)


def _short(value):
    text = str(value)
    return text if len(text) <= 60 else f"{text[:40]}...({len(text)} characters)"
