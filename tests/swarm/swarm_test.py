"""The swarm of settings in its short form: the first combinations of tests/long/swarm.sh run without a
finding. The generator reaches every knob and every model, and the checks find what is wrong."""

import collections
import io
import os
import shutil
import tempfile
import unittest
from unittest import mock

import checks
import draw
import jobs
import models
import promises
import script
import settings
import swarm

COMBINATIONS = int(os.environ.get("TANDEM_SWARM_COMBINATIONS", "200"))
SECONDS = 75  # a slow machine checks fewer combinations


class GeneratorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.swarm = swarm.Swarm(script.BUILD, script.SOURCE)
        cls.drawn = [cls.swarm.generator.draw(seed) for seed in range(6000)]

    def test_every_knob_is_drawn_with_several_values(self):
        values = collections.defaultdict(set)
        for one in self.drawn:
            for name, value in one.knobs.items():
                values[name].add(value)
        for knob in self.swarm.generator.knobs:
            least = 2 if knob.type != "string" or len(settings.TEXTS.get(knob.name, [])) > 1 else 1
            self.assertGreaterEqual(len(values[knob.name]), least, knob.name)

    def test_every_model_of_the_zoo_is_drawn(self):
        drawn = {one.model for one in self.drawn}
        self.assertEqual(drawn, set(models.BY_NAME))
        covered = {model.name.replace("_table", "").replace("_values", "") for model in models.MODELS}
        self.assertEqual(set(settings.zoo(self.swarm.bin)) - covered, models.LARGE)

    def test_every_text_has_values(self):
        texts = {k.name for k in self.swarm.generator.knobs if k.type in ("string", "list of string")}
        self.assertEqual(texts - set(settings.TEXTS), {"recompute_configs.checkpoints"})

    def test_a_seed_draws_the_same_again(self):
        for seed in range(50):
            self.assertEqual(self.swarm.generator.draw(seed), self.drawn[seed])
            again = draw.Combination.from_json(self.drawn[seed].to_json())
            self.assertEqual(again, self.drawn[seed])

    def test_modes_ranks_and_servers(self):
        drawn = {(one.mode, one.ranks, one.servers) for one in self.drawn}
        for some in (("local", 1, 0), ("collective", 4, 0), ("pserver", 3, 3), ("hybrid", 2, 2)):
            self.assertIn(some, drawn)


class PromisesTest(unittest.TestCase):
    def test_rules_name_headings_of_the_guarantees(self):
        path = os.path.join(script.SOURCE, "docs", "project", "guarantees.md")
        with open(path, encoding="utf-8") as file:
            headings = {line.strip("# \n") for line in file if line.startswith("#")}
        sources = {rule.source for rule in promises.RULES} - promises.OTHER_SOURCES
        self.assertEqual(sources - headings, set())

    def test_rules_name_knobs(self):
        known = {knob.name for knob in settings.knobs(script.BIN)}
        for rule in promises.RULES:
            for name in rule.settings:
                if "_configs." in name or "strategy." in name or "runtime_flags." in name:
                    self.assertIn(name, known)

    def test_references_lose_what_must_not_matter(self):
        one = draw.Combination(mode="collective", ranks=2, job={"threads": "1"},
                               knobs={"amp": "true", "build_strategy.enable_inplace": "true"})
        references = promises.references(one, lambda knob, mode: True)
        self.assertEqual([other.knobs for _, other in references], [{"amp": "true"}])
        one.knobs.pop("amp")
        modes = {other.mode for _, other in promises.references(one, lambda knob, mode: True)}
        self.assertEqual(modes, {"collective", "pserver", "local"})


class ChecksTest(unittest.TestCase):
    """The kinds of endings of a job."""

    def verdict(self, **outcome):
        verdict = checks.Verdict()
        given = {"code": 0, "output": "", "seconds": 1, "result": {}, "command": [], "left": [],
                 **outcome}
        swarm_checks = checks.Checker("", "", swarm_generator())
        swarm_checks.ending(draw.Combination(), jobs.Outcome(**given), verdict)
        return [finding.kind for finding in verdict.findings]

    def test_a_refusal_needs_a_code(self):
        self.assertEqual(self.verdict(code=2, output="error: wrong"), ["no code"])
        self.assertEqual(self.verdict(code=2, output="error: wrong [TD1101]"), [])

    def test_other_ends_are_findings(self):
        self.assertEqual(self.verdict(code=1, output="lost [TD4001]"), ["failed TD4001"])
        self.assertEqual(self.verdict(code=139), ["crash"])
        self.assertEqual(self.verdict(code=-1), ["hang"])
        self.assertEqual(self.verdict(crash="Check failed: x"), ["crash"])
        self.assertEqual(self.verdict(left=["process 7: tandem-pserver"]), ["left process"])


def swarm_generator():
    return draw.Generator(script.BIN, script.SOURCE, collections.defaultdict(list))


# Faults of a program in place of tandemrun: what bash does besides running tandemrun, and the finding.
FAULTS = {
    "sleep 60 &": "left process",
    'touch "$TMPDIR/forgotten"': "left temporary",
    'touch "$XDG_RUNTIME_DIR/forgotten"': "left socket",
    "[[ $* != *--nproc* ]] || set -- \"$@\" --seed=9": "bits: ",
    "[[ $* != *--checkpoint.dir=whole* || ! -d whole ]] || set -- \"$@\" --optimizer.l2_decay=9":
        "resume bits: ",
    "echo 'error: wrong'; exit 2": "no code",
    "echo 'hint: [TD4001]'; exit 1": "failed TD4001",
    "kill -SEGV $$": "crash",
}


class SeededFaultsTest(unittest.TestCase):
    """The checks find each fault of a program in place of tandemrun, and nothing without a fault."""

    def findings(self, fault):
        folder = tempfile.mkdtemp(prefix="swarm-faults-")
        self.addCleanup(shutil.rmtree, folder)
        for name in ("tandem", "tandemrun"):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                body = fault if name == "tandemrun" else ""
                file.write(f'#!/bin/bash\n{body}\nexec {os.path.join(script.BIN, name)} "$@"\n')
            os.chmod(os.path.join(folder, name), 0o755)
        data = os.path.join(folder, "data")
        models.write_data(data)
        one = draw.Combination(mode="collective", ranks=2, job={"global_batch_size": "16", "threads": "1"},
                               optimizer={"type": '"sgd"', "learning_rate": "0.01"})
        found = set()
        for seed in range(6):  # the seed chooses one of the references
            verdict = checks.Checker(folder, data, swarm_generator(), 1).check(one, seed)
            found |= {finding.kind for finding in verdict.findings}
            if found:
                break
        return found

    def test_each_fault_is_found(self):
        for fault, kind in FAULTS.items():
            # The process that is left sleeps longer, so that 1 s is enough to find it.
            with self.subTest(kind), mock.patch.object(
                    jobs, "LEFT_S", 1 if kind == "left process" else jobs.LEFT_S):
                found = self.findings(fault)
                self.assertTrue(any(one.startswith(kind) for one in found), found)

    def test_nothing_is_found_without_a_fault(self):
        self.assertEqual(self.findings(""), set())


class SwarmTest(unittest.TestCase):
    def test_the_first_combinations_have_no_finding(self):
        out = io.StringIO()
        summary = swarm.Swarm(script.BUILD, script.SOURCE).run(
            range(1, 1 + COMBINATIONS), SECONDS, out, small=False)
        print(summary.text())
        self.assertEqual(summary.findings, [], out.getvalue())
        self.assertGreater(summary.ran, summary.count / 4, "most combinations are refused")
        for check in ("bits", "loss", "lint", "resume", "export"):
            self.assertGreater(summary.checks[check], 0, check)


if __name__ == "__main__":
    script.main()
