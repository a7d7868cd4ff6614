"""The recorded figures, their page, and the runs that --record refuses. Times nothing."""

import copy
import json
import os
import tempfile
import unittest

import script
import fake_clone
import machine
import results
import runner
import table

FIGURE = {"name": "op_overhead", "unit": "ns/op", "goal": "<= 50 ns", "goal_met": True,
          "ours": 2.0, "peer": 50.0, "peer_name": "the goal", "ratio": 25.0, "limit_share": 0.5,
          "limit_name": "a bare loop", "spread": {"ours": [1.9, 2.1], "peer": [50.0, 50.0]},
          "runs": 5, "date": "2026-11-30T01:02:03Z", "commit": "0123456789ab", "machine": "a CPU",
          "busy_at_start": 0.0, "others_share": 0.01, "trusted": True}
VALUES = {"ns_per_op": [2.0], "ns_per_op_bare_loop": [1.0], "ns_per_op_scale_one_element": [5.0],
          "pull_mb_per_s": [900.0], "memcpy_mb_per_s": [1000.0]}
CALM, BUSY = 0.0, 0.3


class Committed(unittest.TestCase):
    def test_the_page_is_that_of_the_results(self):
        with open(table.PAGE, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text, table.page(list(runner.figures()), results.load()),
                         "figures.md is not current; run tests/bench/table.py")

    def test_rows_are_trusted_and_of_known_figures(self):
        known = {row.name for row in runner.figures()}
        recorded = results.load()
        self.assertTrue(recorded)
        for kind, rows in recorded.items():
            with self.subTest(kind):
                self.assertTrue(results.KIND.match(kind))
                with open(results.path_of(kind), encoding="utf-8") as file:
                    self.assertEqual(json.load(file)["cpu"], kind)
                self.assertEqual(set(rows) - known, set(), "figures.tsv has no such figure")
                for name, row in rows.items():
                    self.assertEqual(list(row), list(results.FIELDS), name)
                    self.assertEqual(results.refusal({**row, "busy_at_start": 0}), "", name)


class Machine(unittest.TestCase):
    def test_kind_of_cpu(self):
        for vendor, flags, kind in (
                ("AuthenticAMD", "fpu avx avx2", "amd-avx2"),
                ("AuthenticAMD", "avx2 avx512f", "amd-avx512"),
                ("GenuineIntel", "avx2 avx512f amx_tile", "intel-amx"),
                ("GenuineIntel", "avx2 avx512f_x", "intel-avx2"),
                ("Unknown", "sse2", "other-generic")):
            text = f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\nprocessor\t: 1\n"
            self.assertEqual(machine.cpu_kind(text), kind)
            self.assertTrue(results.KIND.match(kind))
        self.assertEqual(machine.cpu_kind(""), "other-generic")
        self.assertTrue(results.KIND.match(machine.cpu_kind()))


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_refusals(self):
        self.assertEqual(results.refusal(FIGURE), "")
        for change, reason in (
                ({"runs": 4}, "4 rounds are too few, at least 5"),
                ({"commit": "0123456789ab-dirty"}, "uncommitted changes on top of 0123456789ab"),
                ({"commit": "unknown"}, "no git checkout"),
                ({"busy_at_start": 0.06}, "other processes used 6.0%"),
                ({"others_share": 0.2}, "other processes used 20.0%"),
                ({"one_thread": {"others_share": 0.1}}, "other processes used 10.0%")):
            with self.subTest(change):
                why = results.refusal({**FIGURE, **change})
                self.assertIn(reason, why)
                self.assertIn("\nhint: ", why)
                with self.assertRaisesRegex(ValueError, "op_overhead must not be recorded"):
                    results.record({**FIGURE, **change}, "amd-avx2", self.folder)
                self.assertEqual(os.listdir(self.folder), [])

    def test_a_row_replaces_the_older_one_of_its_figure_and_cpu(self):
        results.record({**FIGURE, "name": "ps_pull_fast"}, "amd-avx2", self.folder)
        results.record(FIGURE, "amd-avx2", self.folder)
        results.record({**FIGURE, "ours": 7.0}, "intel-amx", self.folder)
        path = results.record({**FIGURE, "ours": 3.0}, "amd-avx2", self.folder)
        self.assertEqual(path, os.path.join(self.folder, "amd-avx2.json"))
        found = results.load(self.folder)
        self.assertEqual(list(found), ["amd-avx2", "intel-amx"])
        # The order is that of figures.tsv.
        self.assertEqual(list(found["amd-avx2"]), ["op_overhead", "ps_pull_fast"])
        self.assertEqual(found["amd-avx2"]["op_overhead"]["ours"], 3.0)
        self.assertEqual(found["intel-amx"]["op_overhead"]["ours"], 7.0)
        self.assertNotIn("trusted", found["amd-avx2"]["op_overhead"])


class Page(unittest.TestCase):
    LISTED = [runner.Figure("op_overhead", "ns/op", "<= 50 ns", "built", "an operator"),
              runner.Figure("resnet50_cuda", "images/s", "1.2", "not built yet", "one GPU")]

    def row(self, recorded, name="op_overhead"):
        lines = table.page(self.LISTED, recorded).splitlines()
        line = next(line for line in lines if line.startswith(f"| `{name}` |"))
        return [cell.strip() for cell in line.split("|")[1:-1]]

    def test_each_kind_has_columns(self):
        recorded = {"amd-avx2": {}, "intel-amx": {"op_overhead": copy.deepcopy(FIGURE)}}
        self.assertEqual(self.row(recorded), [
            "`op_overhead`", "ns/op", "<= 50 ns", "not measured", "", "", "", "",
            "2", "50", "25, met", "50 %", "2026-11-30, 01234567"])
        self.assertEqual(self.row(recorded, "resnet50_cuda")[3], "not built yet")
        text = table.page(self.LISTED, recorded)
        self.assertIn("[`amd-avx2`](results/amd-avx2.json): 0 of 1 figures are recorded.", text)
        self.assertIn("1 of 1 figures are recorded on a CPU.", text)
        self.assertIn("| `op_overhead` | intel-amx | 5 | 1.9 .. 2.1 | 50 .. 50 |", text)
        self.assertIn("No run is recorded.", table.page(self.LISTED, {"amd-avx2": {}}))

    def test_goals_and_limits(self):
        for change, ratio, share in (
                ({"goal_met": False}, "25, missed", "50 %"),
                ({"goal": "<= 40 ns"}, "25, measured for the goal <= 40 ns", "50 %"),
                ({"limit_name": "none: no limit"}, "25, met", "none")):
            row = self.row({"amd-avx2": {"op_overhead": {**FIGURE, **change}}})
            self.assertEqual(row[5:7], [ratio, share])

    def test_numbers(self):
        for value, text in ((2.126345, "2.126"), (0.012345, "0.01235"), (37926.52, "37,930"),
                            (1000, "1,000"), (41123456.7, "41,120,000")):
            self.assertEqual(table.number(value), text)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.clone = fake_clone.FakeClone()
        self.addCleanup(self.clone.close)

    def refused(self, done, code, reason):
        """The run ended with this code and reason, and nothing was recorded."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertIn("\nhint: ", done.stderr)
        self.assertEqual(self.clone.results(), {})

    def test_refused_before_anything_is_built(self):
        self.clone.commit(**VALUES)
        self.refused(self.clone.run("op_overhead", "--record", "--rounds=4"), 2,
                     "--record: 4 rounds are too few, at least 5")
        self.clone.write("values.json", "{}")
        self.refused(self.clone.run("op_overhead", "--record"), 1,
                     "--record: the sources have uncommitted changes")
        self.assertEqual(self.clone.calls(""), [])

    def test_other_work_is_refused(self):
        self.clone.commit(**VALUES)
        done = self.clone.run_driver(BUSY, CALM, "op_overhead", "--record")
        self.refused(done, 1, "op_overhead is not measured, because it would not be recorded: "
                     "other processes used 30.0%")
        self.assertEqual((done.stdout, self.clone.calls("run")), ("", []))
        done = self.clone.run_driver(CALM, BUSY, "op_overhead", "--record")
        self.refused(done, 1, "op_overhead is not recorded: other processes used 30.0%")
        self.assertFalse(json.loads(done.stdout)["trusted"])

    def test_trusted_figures_are_recorded(self):
        commit = self.clone.commit(**VALUES)
        done = self.clone.run_driver(CALM, CALM, "ps_pull_fast", "op_overhead", "--record")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.clone.calls("cmake --build")), 1)
        kind = machine.cpu_kind()
        written = self.clone.results()
        self.assertEqual(set(written), {kind + ".json", "figures.md"})
        rows = json.loads(written[kind + ".json"])["figures"]
        self.assertEqual(list(rows), ["op_overhead", "ps_pull_fast"])
        self.assertEqual([row["commit"] for row in rows.values()], [commit] * 2)
        self.assertEqual([row["ratio"] for row in rows.values()], [25.0, 0.9])
        self.assertIn("| `op_overhead` | ns/op | <= 50 ns | 2 | 50 | 25, met | 50 % |",
                      written["figures.md"])
        # A changed file of results is no uncommitted change of the sources.
        self.clone.git("add", "-A")
        self.clone.git("commit", "--quiet", "-m", "results")
        for name in ("op_overhead", "ps_pull_fast"):
            done = self.clone.run_driver(CALM, CALM, name, "--record")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_failed_build_records_nothing(self):
        self.clone.write(fake_clone.BROKEN, "")
        self.clone.commit(**VALUES)
        self.refused(self.clone.run_driver(CALM, CALM, "op_overhead", "--record"), 1,
                     "cmake ended with 1")


if __name__ == "__main__":
    script.need_programs("git", package="git")
    script.main()
