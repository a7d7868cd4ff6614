"""The short form: random clients and faults against real pservers, and a broken one that must be
found. The long form is tests/long/history.sh.

TANDEM_HISTORY_SEED repeats a seed."""

import os
import random
import sys
import types
import unittest

import script

script.need_modules("grpc", "numpy", package="python3-grpcio, python3-numpy")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
sys.path[:0] = [os.path.join(script.SOURCE, "tests", "history"),
                os.path.join(script.BUILD, "python")]

# pylint: disable=wrong-import-position
import all_checkers
import plan as plans
import properties
import run

SECONDS = 5.0
SEED = int(os.environ.get("TANDEM_HISTORY_SEED") or random.SystemRandom().randrange(1 << 30))


class Short(unittest.TestCase):
    def options(self, mode, workload):
        return types.SimpleNamespace(build=script.BUILD, seconds=SECONDS, mode=mode, faults=None,
                                     workload=workload, program=None, keep=False,
                                     out=os.environ.get("TMPDIR", "/tmp/tandem-history"))

    def holds(self, mode, workload="raw"):
        reached = properties.Reached()
        self.assertEqual(run.one_round(SEED, self.options(mode, workload), reached), 0)
        print(reached.text(), flush=True)
        self.assertGreater(reached.hits["a push was acknowledged"], 0)
        self.assertGreater(reached.hits["a whole state was read"], 0)

    def test_promises_hold_in_a_sync_mode(self):
        self.holds("a_sync")

    def test_promises_hold_in_sync_mode(self):
        self.holds("sync")

    def test_promises_hold_for_the_python_client(self):
        self.holds("a_sync", ("moves", "replayable")[SEED % 2])

    def test_a_server_that_applies_a_push_twice_is_found(self):
        """tests/sim/mutants: a repeated push is applied again."""
        plan = {**plans.draw(SEED, "a_sync", []), "servers": 1, "large": 7, "restores": False,
                "snapshots": False}
        broken = os.path.join(script.BIN, "broken-pserver-no_dedup")
        recorded = run.Round(plan, script.BUILD, 3.0, broken).run()
        found = {violation.promise for violation in all_checkers.check(recorded)}
        self.assertIn("At most once", found)


if __name__ == "__main__":
    print(f"seed {SEED}", flush=True)
    script.main()
