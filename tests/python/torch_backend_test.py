"""The backend `tandem` of torch.distributed: the values of gloo, equal bits on any number of ranks,
messages in every order, and an error that names the rank that died or stopped."""

import io
import os
import re
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

import script
from ports import free_ports

script.need_modules("numpy", "torch", package="python3-torch")
# pylint: disable=wrong-import-position
import torch
import tandem_case as case
import torch_c10d
from tandem_case import tandem

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    script.skip("this PyTorch has no torch.distributed with gloo")

from tandem.torch import group_work

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_ranks.py")


def run(name, size, timeout=120, as_text=False):
    """Runs a function of torch_ranks.py, or the text of a program, on `size` ranks. Returns (exit
    status, output) by rank."""
    program = ["-c", name] if as_text else [PROGRAM, name]
    port = free_ports()
    ranks = []
    for rank in range(size):
        environment = dict(os.environ, PYTHONPATH=case.PACKAGES, RANK=str(rank), WORLD_SIZE=str(size),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([sys.executable, *program], env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    results = []
    end = time.monotonic() + timeout
    try:
        for process in ranks:
            out, _ = process.communicate(timeout=max(1.0, end - time.monotonic()))
            results.append((process.returncode, out))
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
                process.wait()
    return results


class Backend(unittest.TestCase):
    def passes(self, name, size):
        results = run(name, size)
        for rank, (status, out) in enumerate(results):
            self.assertEqual(status, 0, f"rank {rank}:\n{out}")
        return [out for _, out in results]

    def test_collectives_are_those_of_gloo(self):
        for out in self.passes("collectives", 3):
            self.assertIn("objects and groups: equal", out)
            self.assertGreaterEqual(out.count(": equal"), 100)

    def test_the_program_of_the_guide_runs(self):
        page = os.path.join(script.SOURCE, "docs/guides/pytorch-distributed.md")
        with open(page, encoding="utf-8") as file:
            program, = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        for status, out in run(program, 2, as_text=True):
            self.assertEqual(status, 0, out)
            self.assertLess(float(out.split()[-1]), 0.1)

    def test_messages_need_no_order(self):
        for out in self.passes("messages", 3):
            self.assertIn("messages: equal", out)

    def test_ddp_has_equal_bits_on_1_2_and_4_ranks(self):
        sums = set()
        for size in (1, 2, 4):
            for out in self.passes("ddp", size):
                sums.add(re.search(r"sha256 (\w+)", out).group(1))
        self.assertEqual(len(sums), 1)

    @unittest.skipIf(torch.__version__ < "2.4", "this PyTorch has no fully_shard for CPUs")
    def test_fsdp_trains_like_one_rank(self):
        for out in self.passes("fsdp", 2):
            self.assertIn("fsdp: equal", out)

    def test_a_killed_rank_is_named(self):
        for name in ("killed", "killed_in_ddp"):
            results = run(name, 3)
            self.assertEqual(results[1][0], -9)
            for rank in (0, 2):
                status, out = results[rank]
                self.assertEqual(status, 0, out)
                self.assertRegex(out, r"error.*: .*rank 1\b")

    def test_a_stopped_rank_is_named_within_the_deadline(self):
        results = run("stopped", 3)
        for rank in (0, 2):
            status, out = results[rank]
            self.assertEqual(status, 0, out)
            found = re.search(r"error after ([\d.]+) s: DeadlineExceededError: (.*)", out)
            self.assertTrue(found, out)
            self.assertLess(float(found.group(1)), 6.0)
            self.assertRegex(found.group(2), r"rank 1\b")

    def test_an_operation_may_have_its_own_timeout(self):
        results = run("timed", 3)
        self.assertEqual([status for status, _ in results], [0, 0, 0], results)
        for rank in (0, 2):
            out = results[rank][1]
            for name in ("options", "set"):
                self.assertRegex(out, rf"{name}: \w+Error after [1-4]\.\d s: ")
        for name in ("options", "set"):  # the others may see that rank 0 gave up first
            self.assertRegex(results[0][1] + results[2][1],
                             rf"{name}: DeadlineExceededError .* within the timeout of 1.5 s \[TD")
        self.assertRegex(results[0][1], r"monitored: .* after [12]\.\d s: Rank 1 failed to pass "
                         r"monitoredBarrier in 1500 ms \[TD3006\]")
        self.assertRegex(results[2][1], "Rank 2 successfully reached monitoredBarrier, but .*: Rank 1 ")

    def test_wrong_calls_are_refused(self):
        for status, out in run("refused", 2):
            self.assertEqual(status, 0, out)
            self.assertRegex(out, r"sparse: UnimplementedError: .*layout torch.sparse_coo")
            self.assertRegex(out, r"shape: InvalidArgumentError: .*tensor 1 is torch.float32\[3\]")
            self.assertRegex(out, r"ranks: InvalidArgumentError: .*1 tensors, expected one for")
            self.assertRegex(out, r"split: InvalidArgumentError: .*2 ranks can divide")
            self.assertRegex(out, r"any: UnimplementedError: .*pass src to recv")
            self.assertRegex(out, r"differs: \w+Error: .*rank [01]")

    def test_a_rank_may_end_before_its_messages_are_received(self):
        for out in self.passes("leaves", 2):
            self.assertIn("leaves: received", out)

    def test_a_program_may_end_without_destroying_its_group(self):
        begin = time.monotonic()
        for status, out in run("late", 2):
            self.assertEqual(status, 0, out)
            self.assertIn("the end", out)
        self.assertLess(time.monotonic() - begin, 20)


class Threads(unittest.TestCase):
    def test_waiting_calls_are_bounded(self):
        thread, begun, release = group_work.Thread("bounded"), threading.Event(), threading.Event()
        thread.submit(lambda: begun.set() or release.wait(30))
        self.assertTrue(begun.wait(30))
        for _ in range(1024):
            thread.submit(lambda: None)
        with self.assertRaisesRegex(tandem.errors.ResourceExhaustedError, "1024 calls wait already"):
            thread.submit(lambda: None)
        release.set()

    def test_a_thread_ends_with_its_object(self):
        thread = group_work.Thread("short")
        running = thread._thread  # pylint: disable=protected-access
        del thread
        running.join(30)
        self.assertFalse(running.is_alive())


class OutcomesOfOtherTests(unittest.TestCase):
    """torch_c10d.py counts the outcome of each test that it runs."""

    def test_no_outcome_is_lost(self):
        class Made(unittest.TestCase):
            def test_passed(self):
                pass

            def test_skipped(self):
                self.skipTest("why")

            def test_error(self):
                raise ValueError("bad")

            def test_subtest(self):
                for value in (1, 2):
                    with self.subTest(value=value):
                        self.assertEqual(value, 1)

            @unittest.expectedFailure
            def test_expected(self):
                self.fail()

            @unittest.expectedFailure
            def test_unexpected(self):
                pass

            def test_failed_then_skipped(self):
                self.addCleanup(self.skipTest, "too late")
                self.fail()

            def run(self, result=None):
                if self._testMethodName != "test_lost":
                    super().run(result)

            def test_lost(self):
                pass

        names = [name for name in dir(Made) if name.startswith("test_")]
        with mock.patch("sys.stderr", io.StringIO()), mock.patch("sys.stdout", io.StringIO()), \
                mock.patch.dict(os.environ):
            outcome = torch_c10d.run(Made, names)
        self.assertEqual({name[5:]: kind for name, (kind, _) in outcome.items()}, {
            "passed": "passed", "skipped": "skipped", "error": "FAILED", "subtest": "FAILED",
            "expected": "passed", "unexpected": "FAILED", "failed_then_skipped": "FAILED",
            "lost": "FAILED"})


if __name__ == "__main__":
    script.main()
