"""The recorded figures: one file for each kind of CPU in docs/project/benchmarks/results/. Only
trusted runs of committed sources are recorded."""

import json
import os
import re

import machine
from runner import ROOT, ROUNDS_MIN, figures

FOLDER = os.path.join(ROOT, "docs", "project", "benchmarks", "results")
# The fields of a figure that are recorded, in the order of the file.
FIELDS = ("unit", "goal", "goal_met", "ours", "peer", "peer_name", "ratio", "limit_share",
          "limit_name", "spread", "runs", "date", "commit", "machine")
KIND = re.compile(r"[a-z]+-[a-z0-9]+$")


def others_of(figure):
    """Largest share of the machine that other processes used before and during the run."""
    return max(figure["busy_at_start"], figure.get("others_share", 0),
               figure.get("one_thread", {}).get("others_share", 0))


def commit_refusal(commit):
    """The reason why figures of this commit are not recorded, "" if there is none."""
    if commit == "unknown":
        return ("the sources are no git checkout, so the figure has no commit\n"
                "hint: run --record in a clone of the repository")
    if commit.endswith("-dirty"):
        return (f"the sources have uncommitted changes on top of {commit[:-len('-dirty')]}\n"
                "hint: git status shows them; commit them first")
    return ""


def busy_refusal(others):
    if others <= machine.BUSY_SHARE_MAX:
        return ""
    return (f"other processes used {others:.1%} of this machine, at most "
            f"{machine.BUSY_SHARE_MAX:.0%} is allowed\n"
            "hint: end them, or wait for an idle machine with --wait_idle_s=600")


def rounds_refusal(rounds):
    if rounds >= ROUNDS_MIN:
        return ""
    return (f"{rounds} rounds are too few, at least {ROUNDS_MIN} are needed\n"
            f"hint: give --rounds={ROUNDS_MIN} or more")


def refusal(figure):
    """The reason why a figure is not recorded, "" if it is trusted."""
    return (rounds_refusal(figure["runs"]) or commit_refusal(figure["commit"])
            or busy_refusal(others_of(figure)))


def path_of(kind, folder=FOLDER):
    return os.path.join(folder, kind + ".json")


def load(folder=FOLDER):
    """{kind of CPU: {figure: row}}, sorted by kind."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name[:-len(".json")]] = json.load(file)["figures"]
    return found


def record(figure, kind, folder=FOLDER):
    """Writes a trusted figure in place of the older row of the same name. Returns the path."""
    if why := refusal(figure):
        raise ValueError(f"{figure['name']} must not be recorded: {why}")
    os.makedirs(folder, exist_ok=True)
    rows = load(folder).get(kind, {})
    rows[figure["name"]] = {field: figure[field] for field in FIELDS}
    order = {row.name: i for i, row in enumerate(figures())}
    rows = dict(sorted(rows.items(), key=lambda pair: order.get(pair[0], len(order))))
    path = path_of(kind, folder)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"cpu": kind, "figures": rows}, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)
    return path
