#!/usr/bin/env python3
"""Fails calls to the operating system one by one in small jobs, and prints what followed.

  tests/long/os_faults.py [ROUNDS [SEED]]        ROUNDS rounds (default 600), by seed (default 1)
  tests/long/os_faults.py --limits               limits of the host, and full disks
  tests/long/os_faults.py --fault=WORKLOAD:...   repeats one round, as a finding prints it

The table has a row for each function, error and process. The list below it says which places of the
programs had a fault. The exit status is 1 if a round has a finding.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "os_faults")]

import faults  # noqa: E402
import limits  # noqa: E402
import plan  # noqa: E402
import rounds  # noqa: E402
import workloads  # noqa: E402


def run_rounds(given, runner, symbols):
    summary = plan.Summary(symbols)
    names = given.workloads.split(",") if given.workloads else list(workloads.BY_NAME)
    for name in names:
        runner.count(workloads.BY_NAME[name])
    end = time.monotonic() + given.seconds if given.seconds else float("inf")
    keep = [] if given.keep else None
    for number, (workload, fault) in enumerate(
            plan.draw(runner.places, plan.seeded(given.seed), names), 1):
        if number > given.rounds or time.monotonic() > end:
            break
        if given.calls and fault.call not in given.calls.split(","):
            continue
        verdict = runner.run(workload, fault, keep)
        summary.add(number, workload, fault, verdict)
        for kind, text in verdict.findings:
            print(plan.report_finding(number, given.seed, workload.name, fault, kind, text))
        if verdict.findings:
            at = symbols.site(verdict.reached) if verdict.reached else "not reached"
            print(f"the call that failed: {at}\n{keep[-1] if keep else ''}", flush=True)
    print("\n" + summary.table() + "\n\n" + summary.sometimes(runner.places) + "\n")
    print("slowest: " + "; ".join(f"{seconds:.0f} s {name}:{text}" for seconds, name, text
                                  in sorted(summary.slow, reverse=True)[:8]))
    print(summary.head() + f", seed {given.seed}")
    return 1 if summary.findings else 0


def run_limits(given, runner):
    names = given.workloads.split(",") if given.workloads else None
    can_mount, failed = limits.can_mount(runner.parent), 0
    keep = [] if given.keep else None
    print("| limit | job | ended | seconds | findings |\n|---|---|---|---|---|", flush=True)
    for limit in limits.variants():
        if names and limit.workload not in names or (given.only and given.only not in limit.name):
            continue
        if limit.workload not in runner.expected:
            runner.count(limits.workload_of(limit))
        if limit.disk and not can_mount:
            print(f"| {limit.name} | {limit.workload} | not run: mount is not permitted | | |")
            continue
        verdict = rounds.run_limit(runner, limit, keep)
        kinds = ", ".join(sorted({kind for kind, _ in verdict.findings})) or "none"
        print(f"| {limit.name} | {limit.workload} | exit code {verdict.code} | "
              f"{verdict.seconds:.1f} | {kinds} |", flush=True)
        failed += bool(verdict.findings)
        for kind, text in verdict.findings:
            print(f"=== {limit.name}, {limit.workload}: {kind}: {text}\n"
                  f"{keep[-1] if keep else ''}", file=sys.stderr, flush=True)
    print(f"os_faults: {failed} limits with findings")
    return 1 if failed else 0


def run_fault(given, runner, symbols):
    name, _, text = given.fault.partition(":")
    workload, fault, keep = workloads.BY_NAME[name], faults.Fault.parse(text), []
    runner.count(workload)
    verdict = runner.run(workload, fault, keep if given.keep else None)
    at = symbols.site(verdict.reached) if verdict.reached else "not reached"
    print(f"exit code {verdict.code} after {verdict.seconds:.1f} s; the call: {at}; "
          f"{verdict.reached}")
    for kind, text in verdict.findings:
        print(f"=== {kind}: {text}")
    print("\n".join(keep))
    return 1 if verdict.findings else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=600)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--library", help="instead of that of the build")
    parser.add_argument("--workloads", help="names, separated by commas (default: all)")
    parser.add_argument("--calls", help="names of functions (default: all)")
    parser.add_argument("--seconds", type=float, default=0, help="time limit; 0: none")
    parser.add_argument("--limits", action="store_true", help="limits of the host")
    parser.add_argument("--only", help="with --limits: a part of the name")
    parser.add_argument("--fault", help="repeat one round")
    parser.add_argument("--keep", action="store_true", help="keep the directories with findings")
    given = parser.parse_args()
    bin_folder = os.path.join(given.build, "bin")
    library = given.library or os.path.join(given.build, "tests", "os_faults",
                                            "libtandem_os_faults.so")
    parent = tempfile.mkdtemp(prefix="of", dir="/tmp")
    os.chmod(parent, 0o755)
    runner, symbols = rounds.Rounds(bin_folder, library, parent), faults.Symbols(bin_folder)
    try:
        if given.fault:
            return run_fault(given, runner, symbols)
        return run_limits(given, runner) if given.limits else run_rounds(given, runner, symbols)
    finally:
        if not given.keep:
            shutil.rmtree(parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
