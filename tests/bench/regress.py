"""Compares two commits: the figures' own side, built from a base commit and from this working tree,
in alternating rounds. tests/bench/run.sh --regress is the way in; it checks the names."""

import argparse
import collections
import contextlib
import os
import re
import statistics
import subprocess
import sys

import machine
import own_side
import peer_setup
import programs
from runner import ROOT, ROUNDS_MIN, Failed, figures, progress

EXIT_SLOWER, EXIT_USAGE, EXIT_FAILED = 1, 2, 4
ROUNDS_LEAST = 3  # with fewer rounds, equal builds often differ by more than their spread
# The options of the working tree's build that the build of the base gets too.
OPTION = re.compile(r"^(CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|CMAKE_CXX_FLAGS\w*|"
                    r"TANDEM_\w+(?=:BOOL|:STRING)):(\w+)=(.*)$", re.M)
GENERATOR = re.compile(r"^CMAKE_GENERATOR:INTERNAL=(.*)$", re.M)


class Usage(Exception):
    """Wrong arguments."""


# Medians of both builds, speed of the new build as a share of the old one's, noise as a share of
# the old median, and "faster", "slower" or "same".
Row = collections.namedtuple("Row", "old new ratio noise verdict")


def judge(old, new, lower_is_better):
    """A row moved if the medians differ by more than each build's rounds differ from each other."""
    if min(len(old), len(new)) < 2:
        raise ValueError("one value has no spread; at least 2 values of each build are needed")
    before, after = statistics.median(old), statistics.median(new)
    noise = max(max(old) - min(old), max(new) - min(new))
    ratio = before / after if lower_is_better else after / before
    verdict = "same"
    if abs(after - before) > noise:
        verdict = "faster" if ratio > 1 else "slower"
    return Row(before, after, ratio, noise / before, verdict)


# ---- The build of the base ----

def git(*args, root=ROOT):
    done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def resolve(base):
    """The first 12 digits of the commit that `base` names."""
    code, top, _ = git("rev-parse", "--show-toplevel")
    if code != 0 or os.path.realpath(top) != os.path.realpath(ROOT):
        raise Usage(f"{ROOT} is no git checkout, so there is no commit {base}\n"
                    "hint: run --regress in a clone of the repository")
    code, commit, _ = git("rev-parse", "--verify", "--quiet", "--short=12", base + "^{commit}")
    if code != 0:
        raise Usage(f'--regress: no commit or branch "{base}" in {ROOT}\n'
                    "hint: git log --oneline shows the commits, git fetch gets missing ones")
    return commit


def check_names(names, commit):
    """All figures can be run without a peer, and the base has them."""
    for name in names:
        if name in own_side.REFUSED:
            raise Usage(f'--regress: figure "{name}" is not supported: {own_side.REFUSED[name]}\n'
                        "hint: run the figure at both commits with tests/bench/run.sh "
                        f"{name} --out=FILE")
    _, text, _ = git("show", f"{commit}:tests/bench/figures.tsv")
    there = {row.name for row in figures(text.splitlines()) if row.state == "built"}
    for name in names:
        if name not in there:
            raise Usage(f'--regress: commit {commit} has no figure "{name}"\n'
                        "hint: leave it out, or choose a newer base")


def checkout(commit, build_dir):
    """The worktree of the commit, made if it is absent."""
    path = os.path.join(build_dir, "regress", commit)
    if not os.path.exists(path):
        progress(f"checking out {commit} into {path}")
        # --force: an earlier worktree may have been deleted without git.
        code, _, error = git("worktree", "add", "--force", "--detach", path, commit)
        if code != 0:
            raise Failed(f"git worktree add {path} {commit} ended with {code}:\n{error}\n"
                         "hint: git worktree list shows the worktrees of this clone")
        return path
    # A directory that is no worktree gives the top of this working tree.
    code, top, _ = git("rev-parse", "--show-toplevel", root=path)
    if code == 0 and os.path.realpath(top) == os.path.realpath(path):
        _, head, _ = git("rev-parse", "--short=12", "HEAD", root=path)
        _, changes, _ = git("status", "--porcelain", root=path)
        if head == commit and not changes:
            return path
    raise Failed(f"{path} is not a clean worktree of {commit}\n"
                 f"hint: remove it with git worktree remove --force {path}, or rm -r {path}")


def build_base(source, build_dir, names):
    """Builds tandem-figures in the worktree with the options of the working tree's build."""
    with open(os.path.join(build_dir, "CMakeCache.txt"), encoding="utf-8") as cache:
        text = cache.read()
    options = [f"-D{name}:{kind}={value}" for name, kind, value in OPTION.findall(text)]
    generator = GENERATOR.search(text)
    base_build = os.path.join(source, "build")
    progress(f"configuring {base_build}")
    programs.run_cmake(["-S", source, "-B", base_build,
                        *(["-G", generator.group(1)] if generator else []), *options],
                       f"configuration of {base_build}",
                       f"remove {base_build} and run the command again, or choose a newer base")
    programs.build(base_build, names)
    return os.path.join(base_build, "bench", programs.FIGURES)


# ---- Rounds ----

def measure(name, own, sides, rounds):
    """{label: (values of the old build, values of the new build)}."""
    taken = {label: ([], []) for label in own.fields}
    with contextlib.ExitStack() as stack:
        for side in sides:
            side.write_files(name, own, stack)
        for index in range(rounds):
            progress(f"{name}: round {index + 1} of {rounds}")
            # The sides take turns at being first, because the second run may find warm caches.
            for which in ((0, 1) if index % 2 == 0 else (1, 0)):
                for label, value in sides[which].run(name, own).items():
                    taken[label][which].append(value)
    return taken


HEAD = (f"{'figure':<34} {'old':>12} {'new':>12} {'ratio':>7} {'noise':>8}  verdict"
        "   (ratio: speed of new as a share of old)")


def line_of(name, label, unit, row):
    title = f"{name} {label}".strip() + f", {unit}"
    return (f"{title:<34} {row.old:>12.6g} {row.new:>12.6g} {row.ratio:>7.3f} "
            f"{100 * row.noise:>6.1f} %  {row.verdict}")


def compare(args, commit):
    """Prints a line for each row. Returns whether a row got slower."""
    build_dir = os.environ.get("TANDEM_BUILD_DIR", os.path.join(ROOT, "build"))
    programs.build(build_dir, [])
    source = checkout(commit, build_dir)
    old = build_base(source, build_dir, [])
    new = os.path.join(build_dir, "bench", programs.FIGURES)
    units = {row.name: row.unit for row in figures()}
    slower, busy, work = [], machine.gate(args.wait_idle_s), machine.OtherWork()
    print(f"old: {commit} ({args.base}); new: {machine.commit(ROOT)}; {machine.describe()}\n{HEAD}",
          flush=True)
    for name in args.names:
        own = own_side.OWN[name]
        sides = [own_side.Side(old, f"base {commit}", build_dir, args.seconds),
                 own_side.Side(new, "working tree", build_dir, args.seconds)]
        for label, (before, after) in measure(name, own, sides, args.rounds).items():
            row = judge(before, after, own.lower)
            print(line_of(name, label, units[name], row), flush=True)
            if row.verdict == "slower":
                slower.append(f"{name} {label}".strip())
    others = max(busy, work.share())
    if others > machine.BUSY_SHARE_MAX:
        progress(f"warning: other processes used {others:.0%} of this machine, which widens the "
                 "noise\nhint: run again with --wait_idle_s=600")
    progress(f"the base stays in {source} for the next comparison; git worktree remove {source} "
             "removes it")
    if slower:
        progress(f"slower than {commit}: {', '.join(slower)}")
    return bool(slower)


def main():
    parser = argparse.ArgumentParser(prog="run.sh --regress")
    parser.add_argument("base")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--wait_idle_s", type=float, default=0)
    args = parser.parse_args()
    try:
        if args.rounds < ROUNDS_LEAST or args.seconds <= 0:
            raise Usage(f"--regress: at least {ROUNDS_LEAST} rounds and more than 0 seconds are "
                        f"needed, found --rounds={args.rounds} --seconds={args.seconds:g}\n"
                        f"hint: {ROUNDS_MIN} rounds are the default")
        commit = resolve(args.base)
        check_names(args.names, commit)
        return EXIT_SLOWER if compare(args, commit) else 0
    except Usage as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except peer_setup.Missing as error:
        print(f"bench: missing: {error}", file=sys.stderr)
        return peer_setup.EXIT_MISSING
    except Failed as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
