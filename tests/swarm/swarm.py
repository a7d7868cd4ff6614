"""A swarm of settings: random combinations of knobs, modes, models, ranks and servers. Prints each
finding with its seed and a smaller combination that shows it, and a summary at the end.

tests/long/swarm.sh [COMBINATIONS [FIRST_SEED]] runs it; `--combination=JSON` runs one combination."""

import argparse
import atexit
import collections
import json
import os
import shlex
import shutil
import sys
import tempfile
import time

import checks
import draw
import jobs
import minimise
import models


class Summary:
    def __init__(self):
        self.count = self.ran = self.hints = 0
        self.checks, self.codes = collections.Counter(), collections.Counter()
        self.findings = []  # (seed, finding)

    def add(self, seed, verdict):
        self.count += 1
        self.ran += verdict.ran
        self.hints += verdict.hint
        self.checks.update(verdict.checked)
        if not verdict.ran:
            self.codes[verdict.code or "none"] += 1
        self.findings += [(seed, finding) for finding in verdict.findings]

    def text(self):
        refused = self.count - self.ran
        share = 100 * refused / max(1, self.count)
        lines = [f"swarm: {self.count} combinations, {self.ran} ran, {refused} ({share:.0f} %) were "
                 f"refused, {len(self.findings)} findings",
                 "checks: " + ", ".join(f"{name} {n}" for name, n in sorted(self.checks.items())),
                 f"refusals with a hint: {self.hints}",
                 "refused: " + ", ".join(f"{code} {n}" for code, n in self.codes.most_common())]
        return "\n".join(lines)


class Swarm:
    """The generator and the checker over one build, with the data of all models."""

    def __init__(self, build, source, share=0.4):
        self.bin = os.path.join(build, "bin")
        self.parent = tempfile.mkdtemp(prefix="swarm-", dir="/tmp")
        atexit.register(shutil.rmtree, self.parent, ignore_errors=True)
        self.data = os.path.join(self.parent, "data")
        models.write_data(self.data)
        with jobs.Folder(self.bin, self.data, self.parent) as folder:
            variables = {model.name: folder.variables(draw.Combination(model=model.name))
                         for model in models.MODELS}
        self.generator = draw.Generator(self.bin, source, variables)
        self.checker = checks.Checker(self.bin, self.data, self.generator, share, self.parent)

    def run(self, seeds, seconds_max=0, out=sys.stdout, small=True, tell=0):
        """Checks the combinations of `seeds`, for at most `seconds_max` seconds (0: no limit)."""
        summary, seen, end = Summary(), collections.Counter(), time.monotonic() + seconds_max
        for seed in seeds:
            if seconds_max and time.monotonic() > end:
                break
            one = self.generator.draw(seed)
            verdict = self.checker.check(one, seed)
            summary.add(seed, verdict)
            for finding in verdict.findings:
                seen[finding.kind] += 1
                self.report(seed, one, finding, out, small and seen[finding.kind] <= 8)
            if tell and summary.count % tell == 0:
                print(f"{time.strftime('%H:%M:%S')} {summary.text().splitlines()[0]}", file=out,
                      flush=True)
        return summary

    def report(self, seed, one, finding, out, small):
        print(f"\n=== seed {seed}: {finding.kind}: {finding.text}", file=out)
        if small:
            def still(other):
                found = self.checker.check(other, seed).findings
                return any(f.kind == finding.kind for f in found)
            one = minimise.minimise(one, still)
        print(f"smaller: tests/long/swarm.sh --combination={shlex.quote(one.to_json())}", file=out,
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20000)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--build", default="build")
    parser.add_argument("--source", default=".")
    parser.add_argument("--seconds", type=float, default=0, help="time limit; 0: none")
    parser.add_argument("--combination", help="run this one, with all checks, and show its job")
    parser.add_argument("--findings", help="file that gets the findings as JSON lines")
    parser.add_argument("--no_smaller", action="store_true", help="do not look for smaller ones")
    given = parser.parse_args()
    swarm = Swarm(os.path.abspath(given.build), os.path.abspath(given.source),
                  1 if given.combination else 0.4)
    if given.combination:
        return show(swarm, draw.Combination.from_json(given.combination))
    begin = time.monotonic()
    summary = swarm.run(range(given.seed, given.seed + given.count), given.seconds,
                        small=not given.no_smaller, tell=100)
    print(f"\n{summary.text()}\n{time.monotonic() - begin:.0f} s, first seed {given.seed}")
    if given.findings:
        with open(given.findings, "a", encoding="utf-8") as file:
            for seed, finding in summary.findings:
                file.write(json.dumps({"seed": seed, "kind": finding.kind}) + "\n")
    return 1 if summary.findings else 0


def show(swarm, one):
    print(jobs.job_text(one, swarm.data))
    with jobs.Folder(swarm.bin, swarm.data, swarm.parent) as folder:
        outcome = folder.run(one, "ck")
        print(shlex.join(outcome.command), f"\nexit code {outcome.code}\n{outcome.output}")
    verdict = swarm.checker.check(one)
    for finding in verdict.findings:
        print(f"finding: {finding.kind}: {finding.text}")
    print(f"checks: {', '.join(verdict.checked)}; {len(verdict.findings)} findings")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
