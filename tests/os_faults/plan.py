"""Chooses the faults of a run by seed, and sums up what the rounds found."""

import collections
import errno
import random

import faults
import rounds
import workloads

SMALL = 12  # of each function the first calls fail one by one


def draw(places, rng, names=None):
    """Yields (workload, fault): each function, error and process of each workload in turn, in an
    order that follows from `rng`. `places`: name of a workload -> its calls."""
    groups = collections.defaultdict(list)
    for name in names or [workload.name for workload in workloads.WORKLOADS]:
        for fault in faults.candidates(places[name], SMALL):
            groups[(name, fault.program, fault.call, fault.error, fault.times)].append(fault)
    order = sorted(groups)
    rng.shuffle(order)
    for key in order:
        rng.shuffle(groups[key])
    while order:
        for key in list(order):
            yield workloads.BY_NAME[key[0]], groups[key].pop()
            if not groups[key]:
                order.remove(key)


def seeded(seed):
    return random.Random(seed)


class Summary:
    def __init__(self, symbols):
        self._symbols = symbols
        self.rows = collections.defaultdict(collections.Counter)  # (call, error, program) -> counts
        self.sites = collections.defaultdict(set)  # (program, call) -> functions that had a fault
        self.findings = []  # (round, workload, fault, kind, text)
        self.slow = []  # (seconds, workload, fault)
        self.rounds = 0

    def add(self, number, workload, fault, verdict):
        self.rounds += 1
        row = self.rows[(fault.call, fault.error_name(), fault.program)]
        row["rounds"] += 1
        known = bool(verdict.findings and self.known(verdict))
        if known:
            row["known"] += 1
            verdict.findings.clear()
        if verdict.reached is None:
            row["not reached"] += 1
        else:
            if not known:
                row["ended well" if verdict.code == 0 else "named"] += 1
            site = self._symbols.site(verdict.reached)
            self.sites[(fault.program, fault.call)].add(site)
        if verdict.findings:
            row["findings"] += 1
        for kind, text in verdict.findings:
            self.findings.append((number, workload.name, fault, kind, text))
        self.slow.append((verdict.seconds, workload.name, fault.text()))

    def known(self, verdict):
        """Why a finding is no mistake of Tandem; empty: it is one."""
        site = self._symbols.site(verdict.reached) if verdict.reached else ""
        texts = [site] + [text for _, text in verdict.findings]
        return next((why for part, why in rounds.KNOWN.items()
                     if any(part in text for text in texts)), "")

    def table(self):
        lines = ["| function | error | process | rounds | not reached | ended well | ended with an "
                 "error | crash of a library | findings |",
                 "|---|---|---|---|---|---|---|---|---|"]
        for (call, error, program), row in sorted(self.rows.items()):
            lines.append(f"| {call} | {error} | {program} | {row['rounds']} | "
                         f"{row['not reached']} | {row['ended well']} | {row['named']} | "
                         f"{row['known']} | {row['findings']} |")
        return "\n".join(lines)

    def sometimes(self, places):
        """For each process and function: the places that had a fault, and the others."""
        known = collections.defaultdict(set)
        for calls in places.values():
            for place in calls:
                if place.call in faults.ERRORS:
                    known[(place.program, place.call)].add(self._symbols.site(place))
        lines = []
        for key in sorted(known):
            reached, never = self.sites[key] & known[key], known[key] - self.sites[key]
            lines.append(f"{key[0]} {key[1]}: {len(reached)} of {len(known[key])} places had a "
                         f"fault")
            lines += [f"    reached: {site}" for site in sorted(reached)]
            lines += [f"    never:   {site}" for site in sorted(never)]
        return "\n".join(lines)

    def head(self):
        named = sum(row["named"] for row in self.rows.values())
        well = sum(row["ended well"] for row in self.rows.values())
        rounds = {(number, kind) for number, _, _, kind, _ in self.findings}
        return (f"os_faults: {self.rounds} rounds, {well} ended well, {named} ended with an error, "
                f"{len({number for number, _ in rounds})} with findings")


def report_finding(number, seed, workload, fault, kind, text):
    code = "short" if fault.error == faults.SHORT else errno.errorcode[fault.error]
    return (f"\n=== round {number}, seed {seed}: {kind}: {workload}, {fault.program} "
            f"{fault.call} {fault.at} {code}\n{text}\nagain: tests/long/os_faults.py "
            f"--fault={workload}:{fault.text()}")
