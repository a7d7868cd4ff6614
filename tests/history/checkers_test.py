"""Each checker must find a history that breaks its promise, and accept one that keeps it."""

import os
import sys
import unittest

import script

sys.path.insert(0, os.path.join(script.SOURCE, "tests", "history"))

# pylint: disable=wrong-import-position
import all_checkers
import checkers
import history
import plan as plans
import row_checkers
from history import OPEN, History


class Maker:
    """Makes events at whole times, in any order."""

    def __init__(self, mode="a_sync", servers=1, trainers=1):
        self.plan = {**plans.draw(1, mode, []), "servers": servers, "trainers": trainers,
                     "slots": 64}
        self.events = []
        self.sequence = 0

    def add(self, call, begin, end, server=0, result="ok", args=None, **reply):
        self.events.append({"who": "test", "call": call, "server": server, "begin": begin,
                            "end": end, "result": result, "args": args or {}, "reply": reply,
                            "n": len(self.events), "message": "",
                            **({"code": reply.pop("code")} if "code" in reply else {})})
        return self.events[-1]

    def push(self, slot, begin, end, result="ok", duplicate=False, parts="", server=0, version=0,
             sequence=None, **more):
        if sequence is None:
            self.sequence += 1
        args = {"trainer": 0, "incarnation": 1, "sequence": sequence or self.sequence, "slot": slot,
                "parts": parts, **more}
        reply = {"version": version, "duplicate": duplicate} if result == "ok" else {}
        return self.add("Push", begin, end, server, result, args, **reply)

    def read(self, slots, begin, end, version=None, server=0, **changed):
        """A whole read in which everything fits together, except for `changed`."""
        seen = f"{history.bits(slots):x}"
        reply = {"version": len(slots) if version is None else version, "odd": {}, "ledger": seen,
                 "twin": "0", "rows": "0", "asked": "0", "one": 0.0, "large": [0.0, 0.0]}
        if self.plan["mode"] == "sync":
            reply.update(twin=seen, one=float(len(slots)), large=[float(len(slots))] * 2)
        reply.update(changed)
        return self.add("Pull", begin, end, server, "ok", {"whole": True}, **reply)

    def table(self, rows, begin, end, version=0, table="fading", server=0):
        return self.add("PullTable", begin, end, server, "ok", {"table": table}, version=version,
                        all=True, rows=rows)

    def fetch(self, begin, end, version, rows=None, removed=(), restart=False, buckets=(),
              current=True):
        return self.add("FetchChanges", begin, end, 0, "ok", {"table": "fading"}, version=version,
                        position=version, until=0, rows=rows or {}, removed=list(removed),
                        restart=restart, buckets=list(buckets), current=current)

    def history(self):
        return History(self.plan, sorted(self.events, key=lambda e: e["begin"]))


class Case(unittest.TestCase):
    def found(self, made, checker):
        return [f"{v.promise}: {v.text}" for v in checker(made.history())]

    def finds(self, made, checker, *words):
        found = self.found(made, checker)
        self.assertTrue(found, "the checker accepted a wrong history")
        for word in words:
            self.assertIn(word, found[0])

    def accepts(self, made, checker=all_checkers.check):
        self.assertEqual(self.found(made, checker), [])


class Sets(Case):
    def test_a_lost_push(self):
        made = Maker()
        made.push(3, 1, 2)
        made.read([3], 3, 4)
        self.accepts(made)
        made.read([], 5, 6)
        self.finds(made, checkers.check_sets, "Exactly once (logged)", "slot 3", "does not have it")

    def test_an_open_push_may_be_there_or_not(self):
        made = Maker()
        made.push(3, 1, 9)
        made.push(4, 1, OPEN, "unknown")
        made.read([], 3, 4)
        made.read([4], 5, 6)
        made.read([3, 4], 7, 8)
        self.accepts(made)

    def test_a_duplicate_reply_acknowledges_too(self):
        made = Maker()
        made.push(3, 1, 2, "unknown", sequence=1)
        made.push(3, 3, 4, duplicate=True, sequence=1)
        made.read([], 5, 6)
        self.finds(made, checkers.check_sets, "acknowledged")

    def test_a_push_that_was_refused(self):
        made = Maker()
        made.push(3, 1, 2, "refused")
        made.push(4, 1, 2, "unknown", bad="nan")
        made.read([], 3, 4)
        self.accepts(made)
        made.read([4], 3, 4)
        self.finds(made, checkers.check_sets, "A push is atomic", "slot 4")

    def test_a_push_before_it_was_sent(self):
        made = Maker()
        made.read([3], 1, 2)
        made.push(3, 3, 4)
        self.finds(made, checkers.check_sets, "slot 3")

    def test_another_content_under_an_old_number(self):
        made = Maker()
        made.push(3, 1, 2, sequence=1)
        made.push(4, 3, 4, duplicate=True, sequence=1, impostor=True)
        made.read([3], 5, 6)
        self.accepts(made)
        made.read([3, 4], 7, 8)
        self.finds(made, checkers.check_sets, "slot 4")


class Restores(Case):
    def saved(self):
        made = Maker()
        made.push(1, 1, 2)
        made.add("SaveCheckpoint", 3, 4, version=1)
        made.push(2, 5, 6)
        made.read([1, 2], 7, 8)
        made.add("RestoreCheckpoint", 10, 20, version=1)
        return made

    def test_a_restore_takes_pushes_back(self):
        made = self.saved()
        made.read([1], 21, 22)
        self.accepts(made, checkers.check_sets)
        made.push(2, 23, 24, sequence=2)
        made.read([1, 2], 25, 26)
        self.accepts(made, checkers.check_sets)

    def test_what_the_checkpoint_has_is_not_lost(self):
        made = self.saved()
        made.read([], 21, 22)
        self.finds(made, checkers.check_sets, "Server checkpoints", "slot 1")

    def test_a_push_after_a_restore_is_not_lost(self):
        made = self.saved()
        made.push(3, 23, 24)
        made.read([1], 25, 26)
        self.finds(made, checkers.check_sets, "slot 3")

    def snapshot(self):
        made = Maker(servers=2)
        for server in (0, 1):
            made.push(1, 1, 2, server=server)
        made.add("snapshot", 3, 8, -1, number=1)
        for server in (0, 1):
            made.push(2, 3, 8, server=server)
            made.push(3, 9, 9, server=server)
        made.add("restore snapshot", 10, 20, -1, number=1)
        return made

    def test_a_snapshot_has_a_push_on_all_servers_or_on_none(self):
        for on_first in ([1], [1, 2]):
            made = self.snapshot()
            made.read(on_first, 21, 22, server=0)
            made.read([1, 2], 21, 22, server=1)
            if on_first == [1, 2]:
                self.accepts(made)
            else:
                self.finds(made, row_checkers.check_snapshots, "Global snapshot", "slot 2")

    def test_a_checkpoint_after_the_restore_of_a_snapshot_has_its_state(self):
        made = Maker()
        made.push(1, 1, 2)
        made.add("snapshot", 3, 4, -1, number=1)
        made.push(2, 5, 6)
        made.add("SaveCheckpoint", 7, 8, version=2)
        made.add("restore snapshot", 10, 20, -1, number=1)
        made.add("RestoreCheckpoint", 23, 24, version=1)
        made.read([1], 25, 26)
        self.accepts(made, checkers.check_sets)
        made.read([], 27, 28)
        self.finds(made, checkers.check_sets, "slot 1")

    def test_a_snapshot_has_no_push_that_began_after_it(self):
        made = self.snapshot()
        made.read([1, 2, 3], 21, 22)
        self.finds(made, checkers.check_sets, "slot 3")


    def test_an_earlier_restore_may_divide_a_push(self):
        """It was of one server, or it was open during the push."""
        for call, server, begin, end in (("RestoreCheckpoint", 1, 4, 5),
                                         ("restore snapshot", -1, 1, 9)):
            made = self.snapshot()
            made.add(call, begin, end, server, number=7)
            made.read([1], 21, 22, server=0)
            made.read([1, 2], 21, 22, server=1)
            self.accepts(made, row_checkers.check_snapshots)

    def test_after_a_restore_a_number_may_have_another_content(self):
        made = self.saved()
        made.push(2, 21, 22, sequence=9)
        made.add("RestoreCheckpoint", 23, 24, version=1)
        made.push(3, 25, 26, sequence=9, impostor=True)
        made.push(2, 27, 28, sequence=9, duplicate=True)
        made.read([1, 3], 29, 30)
        self.accepts(made, checkers.check_sets)


class Replies(Case):
    def test_a_doubled_push(self):
        made = Maker()
        made.push(3, 1, 2)
        made.read([3], 3, 4, odd={"ledger 3": 2.0})
        self.finds(made, checkers.check_doubled, "At most once", "applied 2.0 times")

    def test_a_number_that_is_new_twice(self):
        made = Maker()
        made.push(3, 1, 2, sequence=1)
        made.push(3, 3, 4, sequence=1)
        self.finds(made, checkers.check_replies, "At most once", "twice as new")
        made.events[-1]["reply"]["duplicate"] = True
        self.accepts(made)

    def test_a_wrong_push_that_is_accepted(self):
        made = Maker()
        made.push(3, 1, 2, bad="nan")
        self.finds(made, checkers.check_wrong, "A push is atomic", "nan")

    def test_torn_replies(self):
        for changed in ({"twin": "0"}, {"rows": "0"}, {"one": 2.0}, {"large": [1.0, 2.0]},
                        {"version": 2}):
            made = Maker()
            made.push(3, 1, 2, parts="troL")
            whole = {"twin": "8", "rows": "8", "asked": "ff", "one": 1.0, "large": [1.0, 1.0]}
            made.read([3], 3, 4, **whole)
            self.accepts(made)
            made.read([3], 5, 6, **{**whole, **changed})
            self.finds(made, checkers.check_torn, "A push is atomic")

    def test_a_version_that_goes_back(self):
        made = Maker()
        made.add("GetStatus", 1, 2, version=7)
        made.add("GetStatus", 3, 4, version=6)
        self.finds(made, checkers.check_versions, "from version 7 back to 6")
        made.add("RestoreCheckpoint", 2, 3, version=6)
        self.accepts(made, checkers.check_versions)

    def test_calls_at_once_may_see_any_order(self):
        made = Maker()
        made.add("GetStatus", 1, 9, version=7)
        made.add("GetStatus", 3, 4, version=6)
        self.accepts(made)

    def test_a_pull_of_an_older_version(self):
        made = Maker()
        made.add("Pull", 1, 2, args={"min_version": 5}, version=4)
        self.finds(made, checkers.check_pulled_versions, "version 5 or later got version 4")

    def test_a_call_without_an_end(self):
        made = Maker()
        made.add("Pull", 0, int(19e9), result="unknown", args={"seconds": 3})
        self.finds(made, checkers.check_deadlines, "Every wait has a deadline")

    def test_a_server_that_ends(self):
        made = Maker()
        made.add("died", 0, 1, args={"exit": -11})
        self.finds(made, checkers.check_errors, "Hostile bytes", "-11")

    def test_a_full_disk_without_a_name(self):
        made = Maker()
        made.add("Push", 0, 1, result="unknown", args={}, code="RESOURCE_EXHAUSTED")
        self.finds(made, checkers.check_full_disk, "Full disk")


class Sync(Case):
    def step(self, made, step, begin):
        for trainer in range(2):
            made.push(2 * step + trainer, begin, begin + 1, parts="troL")

    def test_a_version_is_its_steps(self):
        made = Maker("sync", trainers=2)
        self.step(made, 0, 1)
        made.read([0, 1], 3, 4, version=1)
        self.accepts(made)
        for slots, word in (([0], "lacks"), ([0, 1, 2], "has")):
            made.read(slots, 3, 4, version=1)
            self.finds(made, checkers.check_steps, "Killed trainers and pservers (sync)", word)
            made.events.pop()

    def test_a_stale_read_after_acknowledged_pushes(self):
        made = Maker("sync", trainers=2)
        self.step(made, 0, 1)
        self.step(made, 1, 5)
        made.read([0, 1], 7, 8, version=1)
        self.finds(made, checkers.check_acknowledged_steps, "all pushes of step 1")

    def test_an_acknowledgement_that_arrives_after_a_restore(self):
        made = Maker("sync", trainers=2)
        self.step(made, 0, 1)
        for trainer in range(2):
            made.push(2 + trainer, 5, 9, parts="troL")
        made.add("restore snapshot", 6, 8, -1, number=1)
        made.read([0, 1], 10, 11, version=1)
        self.accepts(made, checkers.check_acknowledged_steps)
        self.step(made, 1, 12)
        made.read([0, 1], 14, 15, version=1)
        self.finds(made, checkers.check_acknowledged_steps, "all pushes of step 1")

    def test_a_step_that_completes_short(self):
        made = Maker("sync", trainers=2)
        made.push(0, 1, 2, parts="troL")
        made.read([0, 1], 3, 4, version=1)
        self.finds(made, checkers.check_steps, "Silent trainers", "without trainer 1")


class Rows(Case):
    def test_a_row_that_returns_without_a_push(self):
        made = Maker()
        made.push(0, 1, 2, parts="f:7")
        made.table({"7": [1.0, 1.0]}, 3, 4)
        made.table({}, 5, 6, version=40)
        self.accepts(made, row_checkers.check_rows_return)
        made.table({"7": [1.0, 1.0]}, 7, 8)
        self.finds(made, row_checkers.check_rows_return, "Table rules", "row 7", "came back")
        made.push(1, 6, 9, "unknown", parts="f:7")
        self.accepts(made, row_checkers.check_rows_return)

    def test_a_row_that_goes_too_early_or_too_late(self):
        made = Maker()
        made.push(0, 1, 2, version=10)
        made.push(1, 3, 4, parts="f:7", version=11)
        made.table({"7": [1.0, 1.0]}, 5, 6, version=20)
        made.table({}, 7, 8, version=40)
        self.accepts(made, row_checkers.check_rows_stay)
        made.table({}, 9, 9, version=20)
        self.finds(made, row_checkers.check_rows_stay, "Table rules", "is absent")
        made.events.pop()
        made.table({"7": [1.0, 1.0]}, 9, 9, version=40)
        self.finds(made, row_checkers.check_rows_stay, "outlived")

    def test_a_row_without_rules_that_is_gone(self):
        made = Maker()
        made.push(0, 1, 2, parts="r")
        made.table({}, 3, 4, table="rows")
        self.finds(made, row_checkers.check_rows_stay, "row 7 of table rows is absent")

    def test_a_row_that_returns_after_a_tombstone(self):
        made = Maker()
        made.push(0, 1, 2, parts="f:7")
        made.fetch(3, 4, 1, {"7": [1.0, 1.0]})
        made.fetch(5, 6, 30, removed=["7"])
        self.accepts(made, row_checkers.check_tombstones)
        made.fetch(7, 8, 31, {"7": [1.0, 1.0]})
        self.finds(made, row_checkers.check_tombstones, "Change stream", "brings it back")
        made.push(1, 6, 7, parts="f:7")
        self.accepts(made, row_checkers.check_tombstones)

    def test_a_follower_that_lacks_a_change(self):
        made = Maker()
        made.fetch(1, 2, 5, {"7": [1.0, 1.0], "8": [1.0, 1.0]})
        made.fetch(3, 4, 9, {"7": [2.0, 2.0]}, removed=["8"])
        made.table({"7": [2.0, 2.0]}, 5, 6, version=9)
        self.accepts(made, row_checkers.check_followers)
        made.table({"7": [3.0, 3.0]}, 7, 8, version=9)
        self.finds(made, row_checkers.check_followers, "Change stream", "for row 7")


class Files(Case):
    def test_a_history_is_the_same_after_a_file(self):
        made = Maker()
        made.push(3, 1, OPEN, "unknown")
        made.read([3], 3, 4)
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"history-{os.getpid()}.jsonl")
        self.addCleanup(os.remove, path)
        made.history().save(path)
        loaded = history.load(path)
        self.assertEqual(loaded.events, made.history().events)
        self.assertEqual(loaded.plan, made.plan)


if __name__ == "__main__":
    script.main()
