"""run.sh --regress: the comparison of two lists of values, the arguments, and whole comparisons of
commits whose programs report chosen values. Times nothing."""

import contextlib
import io
import os
import random
import shutil
import tempfile
import unittest
from unittest import mock

import script
import driver
import fake_clone
import figures_pserver
import own_side
import peer_setup
import regress
import runner


DRAWS = 50000


class Judge(unittest.TestCase):
    def test_verdicts(self):
        old = [100, 101, 102, 103, 104]  # median 102, spread 4
        for new, for_less, for_more in (
                ([100, 101, 102, 103, 104], "same", "same"),
                ([104, 105, 106, 107, 108], "same", "same"),  # the difference is the spread
                ([105, 106, 107, 108, 109], "slower", "faster"),
                ([95, 96, 97, 98, 99], "faster", "slower"),
                ([90, 96, 97, 98, 99], "same", "same"),  # the new build's spread is 9
                ([50, 51, 52, 53, 104], "same", "same")):  # one round of the new build is far off
            with self.subTest(new):
                self.assertEqual(regress.judge(old, new, True).verdict, for_less)
                self.assertEqual(regress.judge(old, new, False).verdict, for_more)
                # The noise of the old build counts in the same way.
                swapped = {"slower": "faster", "faster": "slower", "same": "same"}
                self.assertEqual(regress.judge(new, old, True).verdict, swapped[for_less])

    def test_fields(self):
        row = regress.judge([8, 10, 12], [19, 20, 21], True)
        self.assertEqual(row, (10, 20, 0.5, 0.4, "slower"))
        self.assertEqual(regress.judge([8, 10, 12], [19, 20, 21], False).ratio, 2)

    def test_equal_builds_seldom_differ(self):
        """The shares of docs/contributing/recipes.md, for normally distributed rounds."""
        dice = random.Random(7)
        for rounds, least, most in ((3, 0.05, 0.07), (5, 0.003, 0.005)):
            moved = 0
            for _ in range(DRAWS):
                old, new = ([dice.gauss(100, 1) for _ in range(rounds)] for _ in range(2))
                moved += regress.judge(old, new, True).verdict != "same"
            self.assertTrue(least < moved / DRAWS < most, f"{rounds} rounds: {moved / DRAWS}")

    def test_one_value_has_no_noise(self):
        with self.assertRaisesRegex(ValueError, "at least 2"):
            regress.judge([1], [1, 2], True)


class Found(Exception):
    """The first run of a figure."""


class OwnSide(unittest.TestCase):
    def test_each_built_figure_has_a_run_or_a_reason(self):
        built = {row.name for row in runner.figures() if row.state == "built"}
        self.assertEqual(set(own_side.OWN) | set(own_side.REFUSED), built)
        self.assertEqual(set(own_side.OWN) & set(own_side.REFUSED), set())

    def test_threads_are_those_of_the_figure(self):
        """The first run of each figure has the same number of threads as here."""
        bench = driver.Bench.__new__(driver.Bench)
        bench.args = mock.Mock(rounds=1, seconds=1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        bench.build_dir = bench.bin_dir = folder.name
        os.mkdir(os.path.join(folder.name, "bench"))
        with open(os.path.join(folder.name, "bench", "tandem-figures-no_dedup"), "w",
                  encoding="utf-8"):
            pass

        def ours(name, threads, *_more, **_options):
            raise Found(name, threads)

        bench.ours = ours
        python = {name: lambda build_dir: "python3" for name in dir(peer_setup)
                  if name.endswith("_python") and not name.startswith("_")}
        with mock.patch.multiple(peer_setup, **python), \
                mock.patch.object(figures_pserver, "redis",
                                  lambda *_, **__: contextlib.nullcontext()), \
                contextlib.redirect_stderr(io.StringIO()):
            for name, own in own_side.OWN.items():
                with self.subTest(name), self.assertRaises(Found) as found:
                    driver.FIGURES[name](bench)
                self.assertEqual(found.exception.args, (name, own.threads))

    def test_values(self):
        own = own_side.Own(1, {"a": "x", "b": ("y", 1)}, scale=2)
        self.assertEqual(own_side.values_of(own, {"x": 3, "y": [1, 4]}, "p"), {"a": 6, "b": 8})
        for result, text in (({"y": [1, 4]}, "p reports no x\n"),
                             ({"x": 3, "y": [1]}, "p reports no y\n"),
                             ({"x": 0, "y": [1, 4]}, "p reports x 0, expected more than 0\n")):
            with self.assertRaises(runner.Failed) as failed:
                own_side.values_of(own, result, "p")
            self.assertIn(text + "hint: ", str(failed.exception))


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.clone = fake_clone.FakeClone()
        self.addCleanup(self.clone.close)

    def regress(self, code, text, *args):
        """run.sh --regress ends with `code` and writes `text`."""
        done = self.clone.run("--regress", *args)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(text, done.stdout + done.stderr)
        if code not in (0, 1):
            self.assertIn("\nhint: ", done.stderr)
        return done

    def test_wrong_arguments(self):
        base = self.clone.commit(ns_per_op=[1.0])
        self.regress(2, "--regress needs a commit or branch")
        self.regress(2, "--regress needs a commit or branch", "--rounds=5", "op_overhead")
        self.regress(2, "which figure?", base)
        self.regress(2, 'there is no figure "op_overheads"', base, "op_overheads")
        self.regress(2, "--regress and --record exclude each other", base, "op_overhead",
                     "--record")
        self.regress(2, "--regress and --out exclude each other", base, "op_overhead", "--out=x")
        self.regress(2, "at least 3 rounds", base, "op_overhead", "--rounds=2")
        self.regress(2, 'no commit or branch "nowhere"', "nowhere", "op_overhead")
        self.regress(2, 'figure "dp_efficiency" is not supported: it runs whole jobs', base,
                     "op_overhead", "dp_efficiency")
        self.assertEqual(self.clone.calls(""), [], "a wrong call builds nothing")

    def test_a_base_without_the_figure(self):
        path = "tests/bench/figures.tsv"
        with open(os.path.join(self.clone.root, path), encoding="utf-8") as file:
            text = file.read()
        self.clone.write(path, "".join(line for line in text.splitlines(True)
                                       if not line.startswith("ps_pull_fast\t")))
        base = self.clone.commit()
        self.clone.write(path, text)
        self.clone.commit()
        self.regress(2, f'commit {base} has no figure "ps_pull_fast"', base, "ps_pull_fast")

    def test_no_checkout(self):
        shutil.rmtree(os.path.join(self.clone.root, ".git"))
        self.regress(2, "is no git checkout", "HEAD", "op_overhead")

    def test_verdicts_and_order(self):
        base = self.clone.commit(ns_per_op=[2.0, 2.1, 2.2], pull_mb_per_s=[90.0, 91.0, 92.0])
        self.clone.git("branch", "before")
        self.clone.commit(ns_per_op=[2.0, 2.1, 2.2], pull_mb_per_s=[95.0, 96.0, 97.0])
        self.clone.git("branch", "now")
        done = self.regress(0, "faster", "before", "op_overhead", "ps_pull_fast", "--rounds=3")
        rows = {line.split(",")[0]: line for line in done.stdout.splitlines()}
        self.assertTrue(rows["op_overhead"].endswith("same"), done.stdout)
        self.assertTrue(rows["ps_pull_fast"].endswith("faster"), done.stdout)
        self.assertIn(f"old: {base} (before)", done.stdout)
        self.assertIn("op_overhead: round 3 of 3", done.stderr)
        # The builds take turns at being first.
        worktree = os.path.join(self.clone.build, "regress", base)
        order = ["old" if worktree in call else "new" for call in self.clone.calls("run")
                 if "op_overhead" in call]
        self.assertEqual(order, ["old", "new", "new", "old", "old", "new"])
        # The base has the options of this build; the paths of its tools are found again.
        configure = self.clone.calls("cmake -S")[0]
        self.assertIn("-G Ninja", configure)
        self.assertIn("-DCMAKE_BUILD_TYPE:STRING=Release", configure)
        self.assertIn("-DTANDEM_UNITY:BOOL=ON", configure)
        self.assertNotIn("TANDEM_PYTHON3", configure)
        # Only tandem-figures is built.
        builds = self.clone.calls("cmake --build")
        self.assertEqual(len(builds), 2)
        for call in builds:
            self.assertIn("--target tandem-figures -j", call)
        self.clone.write(fake_clone.VALUES, '{"ns_per_op": [3.0], "pull_mb_per_s": [90.0]}')
        done = self.regress(1, f"slower than {base}: op_overhead", "before", "op_overhead")
        self.assertIn("-dirty", done.stdout)

    def test_the_worktree_is_kept_and_checked(self):
        base = self.clone.commit(ns_per_op=[2.0])
        worktree = os.path.join(self.clone.build, "regress", base)
        self.regress(0, "checking out", base, "op_overhead", "--rounds=3")
        done = self.regress(0, "same", base, "op_overhead", "--rounds=3")
        self.assertNotIn("checking out", done.stderr)
        with open(os.path.join(worktree, "values.json"), "a", encoding="utf-8") as file:
            file.write(" ")
        self.regress(4, f"{worktree} is not a clean worktree of {base}", base, "op_overhead")
        # A worktree that was deleted without git is made again.
        shutil.rmtree(worktree)
        self.regress(0, "checking out", base, "op_overhead", "--rounds=3")
        self.clone.git("worktree", "remove", worktree)
        os.makedirs(worktree)
        self.regress(4, f"{worktree} is not a clean worktree of {base}", base, "op_overhead")

    def test_failures(self):
        self.clone.write(fake_clone.BROKEN, "")
        broken = self.clone.commit(ns_per_op=[2.0])
        os.remove(os.path.join(self.clone.root, fake_clone.BROKEN))
        base = self.clone.commit(other=[2.0])
        self.clone.commit(ns_per_op=[2.0])
        self.regress(4, "cmake ended with 1", broken, "op_overhead")
        self.regress(4, f"tandem-figures op_overhead (base {base}) reports no ns_per_op", base,
                     "op_overhead")
        os.remove(os.path.join(self.clone.build, "CMakeCache.txt"))
        self.regress(3, "CMakeCache.txt", base, "op_overhead")


if __name__ == "__main__":
    script.need_programs("git", package="git")
    script.main()
