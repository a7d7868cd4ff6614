"""A few kills of servers and trainers of a PyTorch model with tables: no push is lost or doubled, and
the ledger notices pushes that are (tests/long/torch_tables.py; 200 kills in its long form)."""

import os
import sys
import unittest

import script

script.need_modules("numpy", "torch", package="python3-numpy, python3-torch")
# pylint: disable=wrong-import-position
import tandem_case  # noqa: F401  # the package of this build

sys.path.insert(0, os.path.join(script.SOURCE, "tests", "long"))
import torch_tables


class Kills(unittest.TestCase):
    def test_no_push_is_lost_or_doubled(self):
        self.assertEqual(torch_tables.main(["--build=" + script.BUILD, "--kills=10", "--seed=7"]), 0)


class Accounts(unittest.TestCase):
    """The ledger of three pushes, of which the last has no reply."""

    begun = {(0, 0), (0, 1), (1, 0)}
    replied = {(0, 0), (0, 1)}

    def account(self, **pushes):
        counts = {torch_tables.ledger_row(int(name[1]), int(name[3])): count
                  for name, count in pushes.items()}
        return torch_tables.account(counts, self.begun, self.replied)

    def test_each_push_once_is_right(self):
        self.assertEqual(self.account(t0n0=1, t0n1=1, t1n0=1), (0, 0, 0))
        self.assertEqual(self.account(t0n0=1, t0n1=1), (0, 0, 0))  # without a reply: not pushed

    def test_lost_doubled_and_unknown_pushes_are_counted(self):
        self.assertEqual(self.account(t0n0=1), (1, 0, 0))
        self.assertEqual(self.account(t0n0=1, t0n1=2), (0, 1, 1))
        self.assertEqual(self.account(t0n0=1, t0n1=1, t1n0=2), (0, 1, 1))
        self.assertEqual(self.account(t0n0=1, t0n1=1, t1n3=1), (0, 0, 1))
        self.assertEqual(self.account(t0n0=1, t0n1=0.5), (1, 0, 1))


if __name__ == "__main__":
    script.main()
