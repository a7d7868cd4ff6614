"""One job with 8 tandemruns on this machine, as tests/long/launchers.py starts it with 64."""

import os
import sys
import tempfile
import unittest

import script

sys.path.insert(0, os.path.join(script.SOURCE, "tests", "long"))
import launchers  # noqa: E402  pylint: disable=wrong-import-position

HOSTS, RANKS, START_SECONDS_MAX = 8, 2, 20


class ManyHostsTest(unittest.TestCase):
    def figures(self, model):
        with tempfile.TemporaryDirectory() as directory:
            job = launchers.Launchers(script.BIN, directory, HOSTS, RANKS, model)
            try:
                return launchers.measure(job, seconds=1, separate=SEPARATE)
            finally:
                job.kill()

    def check(self, model, connections):
        figures = self.figures(model)
        print(launchers.table(figures))
        self.assertLess(figures["start_s"], START_SECONDS_MAX)
        self.assertEqual(figures["leading tandemrun"]["connections"], HOSTS - 1)
        self.assertEqual(figures["other tandemrun"]["connections"], 1)
        self.assertEqual(figures["rank"]["connections"], connections)

    def test_scripts(self):
        self.check(model=False, connections=0)

    def test_trainers(self):
        # Each pair of ranks has a control connection and a data connection.
        self.check(model=True, connections=2 * (HOSTS * RANKS - 1))


if __name__ == "__main__":
    # Other programs do not use the ports of a separate network namespace.
    SEPARATE = launchers.enter_network()
    script.main()
