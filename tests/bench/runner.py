"""What every figure is taken with: the list of figures, runs of tandem-figures and of peers,
medians, the fields of a figure."""

import collections
import json
import os
import statistics
import subprocess
import sys

import peer_setup
from peer_setup import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RUN_TIMEOUT_S = 600
ROUNDS_MIN = 5  # minimum for a figure that is quoted or recorded

Figure = collections.namedtuple("Figure", "name unit goal state what")


def figures(lines=None):
    """The rows of figures.tsv, or of `lines` of another version of it."""
    if lines is None:
        with open(os.path.join(HERE, "figures.tsv"), encoding="utf-8") as file:
            lines = file.readlines()
    for line in lines:
        if not line.startswith("#"):
            yield Figure(*line.rstrip("\n").split("\t"))


def run_json(command, env=None, what=""):
    """Runs a command whose last line of output is a JSON object."""
    try:
        done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True,
                              text=True, timeout=RUN_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{what} did not end within {RUN_TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise Failed(f"{what} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def progress(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def stats(values):
    return statistics.median(values), [min(values), max(values)]


def compare(ours, peer, limit, lower_is_better):
    """The fields that every figure has, from the values of all rounds."""
    mine, my_spread = stats(ours)
    other, other_spread = stats(peer)
    if lower_is_better:
        ratio, share = other / mine, limit / mine
    else:
        ratio, share = mine / other, mine / limit if limit else 0
    return {"ours": mine, "peer": other, "peer_name": "", "ratio": round(ratio, 3),
            "limit_share": round(share, 3), "limit": limit,
            "spread": {"ours": my_spread, "peer": other_spread}, "runs": len(ours)}


class Runner:
    """The options of the call, and Tandem's side. Figures are methods of its subclasses."""

    def __init__(self, args):
        self.args = args
        self.build_dir = os.environ.get("TANDEM_BUILD_DIR", os.path.join(ROOT, "build"))
        self.bin_dir = os.path.join(self.build_dir, "bin")
        self.program = os.path.join(self.build_dir, "bench", "tandem-figures")
        if not os.access(self.program, os.X_OK):
            raise peer_setup.Missing(f"{self.program}\nhint: build it with deploy/build.sh")

    def ours(self, name, threads, seconds, *more, program=None):
        return run_json([program or self.program, name, f"--threads={threads}",
                         f"--seconds={seconds}", *more], what="tandem-figures " + name)

    def rounds(self, what):
        """Once for each round, told on the way."""
        for index in range(self.args.rounds):
            progress(f"{what}: round {index + 1} of {self.args.rounds}")
            yield index
