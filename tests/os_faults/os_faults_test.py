"""Failing calls to the operating system in their short form: the first rounds of
tests/long/os_faults.py. The library counts calls and lets the chosen one fail."""

import errno
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import faults
import plan
import rounds
import script
import workloads

LIBRARY = os.path.join(script.BUILD, "tests", "os_faults", "libtandem_os_faults.so")
ROUNDS = int(os.environ.get("TANDEM_OS_FAULTS_ROUNDS", "30"))
SECONDS = 30  # a slow machine runs fewer rounds


class LibraryTest(unittest.TestCase):
    """The library itself, with cat(1)."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="os_faults")
        self.addCleanup(shutil.rmtree, self.folder)
        self.text = os.path.join(self.folder, "text")
        with open(self.text, "w", encoding="utf-8") as file:
            file.write("12345678")

    def cat(self, fault=None, **environment):
        if fault is not None:
            environment.update(fault.environment(os.path.join(self.folder, "mark")))
        return subprocess.run(["/usr/bin/cat", self.text], capture_output=True, text=True,
                              check=False, env={"LD_PRELOAD": LIBRARY,
                                                "TANDEM_FAULT_DIR": self.folder, **environment})

    def test_calls_below_the_directory_are_counted(self):
        log = os.path.join(self.folder, "log")
        self.assertEqual(self.cat(TANDEM_FAULT_LOG=log).stdout, "12345678")
        places = faults.read_places(log)
        self.assertEqual([p.number for p in places if p.call == "read"], [1, 2])
        self.assertTrue(all(p.path == self.text and p.program == "cat" and p.addresses
                            for p in places), places)

    def test_the_chosen_call_fails_once(self):
        ended = self.cat(faults.Fault("cat", "0", "read", 1, errno.EIO))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("Input/output error", ended.stderr)
        # Another process of the job does not fail, because the mark exists.
        self.assertEqual(self.cat(faults.Fault("cat", "0", "read", 1, errno.EIO)).returncode, 0)
        place, = faults.read_places(os.path.join(self.folder, "mark"))
        self.assertEqual((place.call, place.number, place.path), ("read", 1, self.text))

    def test_a_short_read_has_half_of_the_bytes(self):
        log = os.path.join(self.folder, "log")
        ended = self.cat(faults.Fault("cat", "0", "read", 1, faults.SHORT), TANDEM_FAULT_LOG=log)
        self.assertEqual(ended.stdout, "12345678")
        self.assertGreaterEqual(len([p for p in faults.read_places(log) if p.call == "read"]), 2)

    def test_another_program_does_not_fail(self):
        self.assertEqual(self.cat(faults.Fault("dog", "0", "read", 1, errno.EIO)).returncode, 0)


# Faults that found a mistake (docs/project/benchmarks/os-faults.md): workload, program, function, a
# part of the place's name or path, errno, number of calls that fail.
FOUND = [
    ("local_resumed", "tandemrun", "readdir", "PrepareFiles", errno.EIO, 1),
    ("collective", "tandem-trainer", "eventfd", "MakeTcpTransport", errno.EMFILE, 1),
    ("collective", "tandem-trainer", "epoll_create", "epoll_reactor", errno.EMFILE, 1),
    ("export_npz", "tandem", "open", "LoadCheckpoint", errno.EMFILE, 1),
    ("pserver", "tandem-pserver", "write", "WriteSynced", errno.ENOSPC, faults.FOR_EVER),
    ("local", "tandemrun", "signalfd", "Supervisor::Run", errno.EMFILE, 1),
    ("local", "tandemrun", "fork", "Process::Start", errno.EAGAIN, 1),
    ("text", "tandem-trainer", "read", "words.txt", errno.EIO, 1),
    ("pserver", "tandemrun", "open", "MakePrivateDir", errno.EMFILE, 1),
    ("save", "tandem", "socket", "ShakeHands", errno.EMFILE, 1),
]


class RoundsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.parent = tempfile.mkdtemp(prefix="of", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, cls.parent, ignore_errors=True)
        cls.runner = rounds.Rounds(script.BIN, LIBRARY, cls.parent)
        cls.symbols = faults.Symbols(script.BIN)
        for workload in workloads.WORKLOADS:
            cls.runner.count(workload)

    def test_first_rounds_have_no_finding(self):
        summary = plan.Summary(self.symbols)
        end = time.monotonic() + SECONDS
        for number, (workload, fault) in enumerate(
                plan.draw(self.runner.places, plan.seeded(1)), 1):
            if number > ROUNDS or time.monotonic() > end:
                break
            verdict = self.runner.run(workload, fault)
            summary.add(number, workload, fault, verdict)
            for kind, text in verdict.findings:
                self.fail(plan.report_finding(number, 1, workload.name, fault, kind, text))
        print(summary.head())
        self.assertGreater(sum(row["named"] + row["ended well"]
                               for row in summary.rows.values()), 0)

    def test_former_findings_stay_mended(self):
        for name, program, call, part, error, times in FOUND:
            with self.subTest(name=name, call=call, part=part):
                place = next((p for p in self.runner.places[name] if (p.program, p.call) ==
                              (program, call) and part in self.symbols.site(p) + p.path), None)
                self.assertIsNotNone(place, "the job makes no such call any more")
                fault = faults.Fault(program, place.index, call, place.number, error, times)
                verdict = self.runner.run(workloads.BY_NAME[name], fault)
                self.assertIsNotNone(verdict.reached)
                self.assertEqual(verdict.findings, [])


if __name__ == "__main__":
    script.need_file(LIBRARY, "none: the target tandem_os_faults")
    script.main()
