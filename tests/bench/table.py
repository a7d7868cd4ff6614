#!/usr/bin/env python3
"""Writes docs/project/benchmarks/figures.md from figures.tsv and the recorded figures. run.sh
--record calls it; tests/bench/results_test.py checks that the page is current.

usage: tests/bench/table.py"""

import os
import textwrap

import results
from runner import ROOT, figures

PAGE = os.path.join(ROOT, "docs", "project", "benchmarks", "figures.md")
WIDTH = 100
COLUMNS = ("Tandem", "peer", "ratio", "of limit", "date, commit")
NOT_MEASURED = "not measured"

INTRO = """\
# Figures by CPU

This page has all figures of `tests/bench/figures.tsv` in one table, with one group of columns for
each kind of CPU. It is for a user who compares CPUs and for a contributor who looks for misses.
[Current figures](index.md) has the figures of the notes, with their explanations.

`tests/bench/table.py` writes this page from the recorded runs. Do not edit it.
"""

COLUMNS_TEXT = """\
- **Tandem**, **peer**: medians over the rounds of one run that alternates both sides.
- **ratio**: how many times better Tandem is than the peer, and whether the goal is met. If the goal
  is a bound, the bound is the peer.
- **of limit**: share of the limit of the machine that Tandem reaches. "none" means that the figure
  has no limit.
- **not measured**: no trusted run is recorded for this kind of CPU. Measurements in the notes are
  not in the table.

The kinds of CPU are named after the vendor and the widest vector instructions.
"""

END = """\
## See also

- [Current figures](index.md)
- [Recipes](../../contributing/recipes.md#a-recorded-figure): how a figure is recorded
"""


def number(value):
    """Four significant digits."""
    return f"{float(f'{value:.4g}'):,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def goal_of(row, goal):
    """Whether a recorded row meets the goal of figures.tsv."""
    if row["goal"] != goal:
        return f"measured for the goal {row['goal']}"
    return "met" if row["goal_met"] else "missed"


def cells(row, figure):
    """The columns of a kind of CPU."""
    if figure.state != "built":
        return [figure.state] + [""] * (len(COLUMNS) - 1)
    if row is None:
        return [NOT_MEASURED] + [""] * (len(COLUMNS) - 1)
    share = "none" if row["limit_name"].startswith("none") else f"{100 * row['limit_share']:.0f} %"
    return [number(row["ours"]), number(row["peer"]),
            f"{row['ratio']:.3g}, {goal_of(row, figure.goal)}", share,
            f"{row['date'][:10]}, {row['commit'][:8]}"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def bullet(text):
    """The lines of an item of a list."""
    return textwrap.wrap("- " + text, WIDTH, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def summary(listed, recorded):
    """How much is recorded, for each kind of CPU."""
    built = sum(figure.state == "built" for figure in listed)
    lines = []
    for kind, rows in recorded.items():
        machines = sorted({row["machine"] for row in rows.values()})
        where = f" on {'; '.join(machines)}" if machines else ""
        lines += bullet(f"[`{kind}`](results/{kind}.json): {len(rows)} of {built} figures are "
                        f"recorded{where}.")
    return lines


def runs(listed, recorded):
    """The spread, the peer and the limit of each recorded row."""
    found = []
    for figure in listed:
        for kind, rows in recorded.items():
            row = rows.get(figure.name)
            if row:
                spread = [f"{number(least)} .. {number(most)}"
                          for least, most in (row["spread"]["ours"], row["spread"]["peer"])]
                found.append([f"`{figure.name}`", kind, str(row["runs"]), *spread,
                              row["peer_name"], row["limit_name"]])
    return found


def page(listed, recorded):
    """The text of the page, from the rows of figures.tsv and {kind of CPU: {figure: row}}."""
    head = ["figure", "unit", "goal"]
    for kind in recorded:
        head += [f"{kind}: {COLUMNS[0]}", *COLUMNS[1:]]
    rows = [[f"`{figure.name}`", figure.unit, figure.goal,
             *(cell for by_name in recorded.values() for cell in cells(
                 by_name.get(figure.name), figure))] for figure in listed]
    detail = runs(listed, recorded)
    lines = [INTRO, "## Recorded", "", *summary(listed, recorded), "",
             "## Figures", "", *table(head, rows), "", COLUMNS_TEXT, "## Runs", ""]
    lines += table(["figure", "CPU", "rounds", "spread of Tandem", "spread of the peer", "peer",
                    "limit"], detail) if detail else ["No run is recorded."]
    lines += ["", "## Meaning of the figures", ""]
    for figure in listed:
        lines += bullet(f"`{figure.name}`: {figure.what}")
    return "\n".join([*lines, "", END])


def write():
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page(list(figures()), results.load()))
    return PAGE


if __name__ == "__main__":
    print(write())
