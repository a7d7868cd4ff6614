"""The programs of docs/guides/python.md run as they are printed."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import script
import tandem_case as case

PAGE = os.path.join(script.SOURCE, "docs/guides/python.md")


class Guide(unittest.TestCase):
    def test_the_programs_run(self):
        with open(PAGE, encoding="utf-8") as file:
            programs = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        self.assertGreaterEqual(len(programs), 2)
        self.assertLessEqual(len(programs[0].splitlines()), 15)
        with tempfile.TemporaryDirectory(prefix="tandem-guide-") as folder:
            done = subprocess.run(  # each program continues the one before
                [sys.executable, "-B", "-c", "\n".join(programs)], cwd=folder, capture_output=True,
                text=True, check=False, env={**os.environ, "PYTHONPATH": case.PACKAGES})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["iris.pbtxt", "iris.safetensors"])
        losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if "loss" in line]
        self.assertLess(losses[-1], 0.2)


if __name__ == "__main__":
    script.main()
