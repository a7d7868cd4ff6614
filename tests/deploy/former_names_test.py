"""Names of earlier versions that stay for a release. Each former name of a flag, of a JSON key and of
the Python client does the same as the current one. CHANGELOG.md names both."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import jobs
import script

JOB = ["--pservers=127.0.0.1:1", "--job=j"]
# A simulation with a link of each kind; every flag is given once.
PLAN = ["plan", "ranks.pbtxt", "--ranks=4", "--ranks_per_host=2",
        "--latency_us=5", "--bandwidth_gbps=80", "--inter_latency_us=1000",
        "--inter_bandwidth_gbps=1", "--message_overhead_us=0", "--reduce_gbps=1000"]
# (former name, current name, command with the current name). Commands may fail: both names must
# give the same output and the same exit code.
FLAGS = [
    ("cut", "snapshot", ["tandem", "save", *JOB, "--snapshot", "--mode=delta"]),
    ("cut", "snapshot", ["tandem", "restore", *JOB, "--snapshot=newest"]),
    ("pages", "status_pages", ["tandem", "status", "log", "--status_pages=127.0.0.1:1"]),
    ("alpha_us", "latency_us", ["tandem", *PLAN]),
    ("inter_alpha_us", "inter_latency_us", ["tandem", *PLAN]),
    ("inter_gbps", "inter_bandwidth_gbps", ["tandem", *PLAN]),
    ("message_us", "message_overhead_us", ["tandem", *PLAN]),
    ("add_gbps", "reduce_gbps", ["tandem", *PLAN]),
    ("admin_listen", "status_listen", ["tandem-pserver", "--status_listen=nowhere"]),
    ("admin_listen", "status_listen",
     ["tandem-trainer", "--job_file=job.pbtxt", "--status_listen=nowhere"]),
    ("event_dir", "tensorboard_dir",
     ["tandem-trainer", "--job_file=job.pbtxt", "--tensorboard_dir=/proc/none"]),
]


class FormerNames(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-former-names-")
        jobs.write_click(cls.folder.name)
        with open(os.path.join(cls.folder.name, "ranks.pbtxt"), "w", encoding="utf-8") as file:
            file.write(jobs.CLICK + "mode: COLLECTIVE\n")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, program, *args):
        done = subprocess.run([os.path.join(script.BIN, program), *args], cwd=self.folder.name,
                              capture_output=True, text=True, check=False, timeout=120)
        # Log lines of glog begin with the time.
        text = re.sub(r"^[IWE]\d{8} .*?\] ", "", done.stdout + done.stderr, flags=re.M)
        return done.returncode, text

    def test_flags(self):
        for former, current, command in FLAGS:
            with self.subTest(former=former, program=command[:2]):
                old = [re.sub(rf"^--{current}\b", f"--{former}", word) for word in command]
                self.assertNotEqual(old, command)
                code, text = self.run_program(*command)
                self.assertNotIn("unknown", text)
                if command[0] == "tandem":
                    without = [word for word in command if not word.startswith(f"--{current}")]
                    self.assertNotEqual(self.run_program(*without), (code, text),
                                        "the flag has no effect here")
                else:  # without the flag the program would run on
                    self.assertNotEqual(code, 0)
                    self.assertIn(command[-1].partition("=")[2], text)
                self.assertEqual(self.run_program(*old), (code, text))

    def test_help_shows_current_names(self):
        for former, current, command in FLAGS:
            program = command[:2] if command[0] == "tandem" else command[:1]
            _, text = self.run_program(*program, "--help")
            self.assertRegex(text, rf"--{current}\b")
            if command[0] != "tandem":
                self.assertNotRegex(text, rf"--{former}\b")

    def test_json_keys(self):
        code, text = self.run_program("tandem", "lint", "job.pbtxt", "--memory", "-o", "json")
        self.assertEqual(code, 0, text)
        rows = re.findall(r'"after": (".*?"),\s*"behind": (".*?")', text)
        self.assertGreater(len(rows), 2, text)
        for after, behind in rows:
            self.assertEqual(json.loads(after), json.loads(behind))

    def test_python_names(self):
        code = ("import tandem_pserver as t; assert t.Block is t.Slice; "
                "assert 'Slice' in t.__all__ and 'Block' in t.__all__")
        environment = dict(os.environ, PYTHONPATH=os.path.join(script.BUILD, "python"))
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                              text=True, check=False)
        if "No module named 'grpc'" in done.stderr or "No module named 'google" in done.stderr:
            self.skipTest("no grpc for Python")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_changelog_names_both(self):
        with open(os.path.join(script.SOURCE, "CHANGELOG.md"), encoding="utf-8") as file:
            text = file.read()
        for former, current, _ in FLAGS:
            self.assertIn(f"| `--{former}` | `--{current}` |", text)
        # Metrics: those of docs/reference/metrics.md, which monitoring_test.py compares with what
        # processes export.
        with open(os.path.join(script.SOURCE, "docs", "reference", "metrics.md"),
                  encoding="utf-8") as file:
            metrics = re.findall(r"^\| (`tandem_\w+`) \| (`tandem_\w+`) \|$", file.read(), re.M)
        self.assertEqual(len(metrics), 5)
        for former, current in metrics:
            self.assertIn(f"| {former} | {current} |", text)


if __name__ == "__main__":
    script.main()
