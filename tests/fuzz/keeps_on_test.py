"""tests/long/fuzz.sh over a stand-in for libFuzzer: turns go on from the corpus that the last run kept,
figures add up, and the rows of the page are replaced."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import script

PAGE = """# Fuzzing

| target | executions | edges | corpus | CPU minutes | crashes |
|---|---|---|---|---|---|
| csv | seeds and their mutations alone | | | | 0 |
| jpeg | 4,900,460 | 131 | 51 | 1.0 | 0 |

| target | of another table |
|---|---|
| csv | stays |
"""

# Pretends to be libFuzzer: adds one file to the corpus in each run and uses some processor time.
STAND_IN = """#!/bin/bash
case $1 in
  --write_seeds=*) echo a > "${1#*=}/seed-0"; exit ;;
esac
while [ "$(awk '{ print $14 + $15 }' /proc/$$/stat)" -lt 10 ]; do :; done
n=$(ls "$1" | wc -l)
echo a > "$1/found-$n"
echo "#2 INITED cov: $((100 * n)) ft: 5 corp: $((n + 1))/9b"
echo "stat::number_of_executed_units: 1234567"
exit ${CRASH:-0}
"""


class Fuzz(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-fuzz-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(self.path("programs"))
        for name in ("csv", "mnist"):
            self.write(f"programs/fuzz_{name}", STAND_IN)
            os.chmod(self.path("programs", f"fuzz_{name}"), 0o755)
        self.write("page.md", PAGE)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def page(self):
        with open(self.path("page.md"), encoding="utf-8") as file:
            return file.read()

    def fuzz(self, *targets, code=0, **environment):
        done = subprocess.run(
            [os.path.join(script.SOURCE, "tests", "long", "fuzz.sh"), "0.02", *targets],
            env={**os.environ, "TANDEM_FUZZ_PROGRAMS": self.path("programs"),
                 "TANDEM_FUZZ_KEEP": self.path("kept"), "TANDEM_FUZZ_PAGE": self.path("page.md"),
                 **environment}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_goes_on_and_writes_the_page(self):
        said = self.fuzz("csv")
        self.assertEqual(self.page(), PAGE, "nobody asked for it")
        row = r"\| csv \| ([0-9,]+) \| ([0-9]+) \| ([0-9]+) \| [0-9.]+ \| 0 \|\n"
        executions, edges, corpus = re.search(row, said).groups()
        self.assertRegex(executions, "^[1-9],[0-9]{3},[0-9]{3}$")
        turns = int(executions.replace(",", "")) // 1234567
        self.assertEqual((int(edges), int(corpus)), (100 * turns, turns + 1))

        self.fuzz("csv", "mnist", TANDEM_UPDATE="1")
        page = self.page()
        more = re.search(row, page)
        self.assertGreater(int(more[2]), int(edges), "the corpus was kept")
        self.assertEqual(int(more[1].replace(",", "")) // 1234567, int(more[3]) - 1)
        self.assertIn("| jpeg | 4,900,460 | 131 | 51 | 1.0 | 0 |\n| mnist | ", page)
        self.assertIn("| csv | stays |\n", page)
        self.assertNotIn("mutations alone", page)

    def test_a_crash_is_told_and_counted(self):
        said = self.fuzz("csv", code=1, CRASH="77", TANDEM_UPDATE="1")
        self.assertIn("fuzz.sh: csv ended with 77", said)
        self.assertRegex(self.page(), r"\| csv \| .* \| 1 \|\n")

    def test_targets_that_are_not_there_are_named(self):
        self.assertIn('no target "nothing"', self.fuzz("nothing", code=2))


if __name__ == "__main__":
    script.main()
