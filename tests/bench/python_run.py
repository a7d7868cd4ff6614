#!/usr/bin/env python3
"""`Executor.run` of the Python package beside the same steps in C++ and in eager PyTorch, in one
alternating run.

usage: tests/bench/python_run.py [--build=build] [--rounds=5] [--seconds=1]

A step is fed with arrays of numpy and returns its loss: training of a perceptron of 1 layer and of
40 layers (64 wide, batch 8, momentum, 1 thread). In each round the sides take turns. All sides begin
with the parameters and data that tandem-figures exports, and their first losses must agree. The
figures are medians over the rounds:

  overhead   microseconds that a step from Python costs more than the same step in C++; "least": of
             the fastest chunk of steps of all rounds, which other work disturbs less
  ratio      time of a step of PyTorch as a share of the time of a step from Python

TANDEM_BENCH_VENV is the environment with PyTorch (tests/bench/run.sh)."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

import machine
import peer_setup
from exported import Export
from figures_training import check_losses
from runner import HERE, Failed, progress, run_json

STEPS_CHECKED = 20
OVERHEAD_MAX_US, RATIO_MIN = 3.0, 8.0
FIGURES = {1: "mlp1_fed", 40: "mlp40_fed"}


def measure(step, restore, chunk, seconds):
    """The losses of the first steps, and the median time of a step over chunks that all begin with
    the first parameters. The first chunk does not count."""
    restore()
    losses = [float(step()) for _ in range(STEPS_CHECKED)]
    micros, total = [], 0.0
    while total < seconds or len(micros) < 2:
        restore()
        begin = time.perf_counter()
        for _ in range(chunk):
            step()
        taken = time.perf_counter() - begin
        micros.append(taken * 1e6 / chunk)
        total += taken
    return {"us_per_step": statistics.median(micros[1:]), "us_per_step_min": min(micros[1:]),
            "losses": losses}


def tandem_side(export, seconds):
    import tandem  # pylint: disable=import-outside-toplevel
    x = tandem.data("img", [None, 64])
    label = tandem.data("label", [None, 1], "int64")
    for _ in range(len(export.params) // 2):
        x = tandem.layers.fc(x, 64, act="relu")
    loss = tandem.layers.softmax_loss(x, label)
    tandem.optimizer.Momentum(export.options["learning_rate"], export.options["mu"]).minimize(loss)
    scope, exe = tandem.Scope(), tandem.Executor(threads=1)
    exe.run(tandem.default_startup_program(), scope=scope)
    first = {name: scope.get(name) for name in scope.names()}
    for name, value in export.params:
        first[name] = value
    feed = export.data
    fetch = [loss]
    program = tandem.default_main_program()

    def restore():
        for name, value in first.items():
            scope.set(name, value)

    return measure(lambda: exe.run(program, feed=feed, fetch_list=fetch, scope=scope)[0][0],
                   restore, int(export.options["chunk_steps"]), seconds)


def torch_side(folder, seconds, variant):
    import torch  # pylint: disable=import-outside-toplevel
    import peer_torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    arrays = Export(folder).data
    run = peer_torch.Run("mlp40_step", peer_torch.Export(folder), variant)

    def step():
        run.x, run.y = torch.from_numpy(arrays["img"]), torch.from_numpy(arrays["label"])
        return run.step().item()

    return {"version": torch.__version__,
            **measure(step, run.restore, int(run.export.options["chunk_steps"]), seconds)}


class Sides:
    """Runs of each side in its own process."""

    def __init__(self, build, seconds):
        self.program = os.path.join(build, "bench", "tandem-figures")
        self.build, self.seconds = build, seconds
        self.torch_python = peer_setup.torch_python(build)

    def cpp(self, layers, *more):
        return run_json([self.program, FIGURES[layers], f"--seconds={self.seconds}", *more],
                        what=FIGURES[layers])

    def python(self, folder):
        return run_json([sys.executable, "-B", __file__, "--side=tandem", "--data=" + folder,
                         f"--seconds={self.seconds}"],
                        {"PYTHONPATH": os.path.join(self.build, "python"), "OMP_NUM_THREADS": "1"},
                        "Tandem from Python")

    def torch(self, folder, variant):
        return run_json([self.torch_python, "-B", __file__, "--side=torch", "--data=" + folder,
                         f"--seconds={self.seconds}", "--variant=" + variant],
                        {"OMP_NUM_THREADS": "1"}, "PyTorch")


def compare(sides, rounds):
    """Prints the figures. Returns whether both goals are met."""
    with tempfile.TemporaryDirectory(prefix="tandem-python-run-") as top:
        folders, first = {}, {}
        for layers in FIGURES:
            folders[layers] = os.path.join(top, str(layers))
            os.mkdir(folders[layers])
            first[layers] = sides.cpp(layers, f"--check_steps={STEPS_CHECKED}",
                                      "--export_dir=" + folders[layers])["losses"]
        tried = {name: sides.torch(folders[40], name) for name in ("foreach", "fused", "forloop")}
        variant = min(tried, key=lambda name: tried[name]["us_per_step"])
        times = {("C++", 1): [], ("Python", 1): [], ("C++", 40): [], ("Python", 40): [],
                 ("PyTorch", 40): []}
        least = {}
        for index in range(rounds):
            progress(f"round {index + 1} of {rounds}, PyTorch with {variant}")
            for side, layers in times:
                if side == "C++":
                    found = sides.cpp(layers)
                else:
                    found = sides.python(folders[layers]) if side == "Python" else \
                        sides.torch(folders[layers], variant)
                    check_losses(first[layers], found["losses"], f"{side}, {layers} layers")
                times[side, layers].append(found["us_per_step"])
                least[side, layers] = min(found["us_per_step_min"],
                                          least.get((side, layers), float("inf")))
    print("| step | C++, us | Python, us | overhead, us | least | PyTorch, us | ratio |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    median = {key: statistics.median(values) for key, values in times.items()}
    over = {layers: statistics.median(b - a for a, b in zip(times["C++", layers],
                                                            times["Python", layers]))
            for layers in FIGURES}
    ratio = median["PyTorch", 40] / median["Python", 40]
    for layers in FIGURES:
        peer = f"{median['PyTorch', 40]:,.0f} | {ratio:.1f}" if layers == 40 else "- | -"
        print(f"| {layers} layers | {median['C++', layers]:.2f} | {median['Python', layers]:.2f} | "
              f"{over[layers]:.2f} | {least['Python', layers] - least['C++', layers]:.2f} | {peer} |")
    version = tried[variant]["version"]
    print(f"PyTorch {version} eager, {variant}. All rounds: " + json.dumps(
        {f"{side} {layers}": [round(v, 2) for v in values]
         for (side, layers), values in times.items()}))
    met = over[1] <= OVERHEAD_MAX_US, ratio >= RATIO_MIN
    print(f"overhead of 1 layer, goal at most {OVERHEAD_MAX_US:g} us: "
          f"{'met' if met[0] else 'missed'}; ratio of 40 layers, goal at least {RATIO_MIN:g}: "
          f"{'met' if met[1] else 'missed'}")
    return all(met)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    source = os.path.dirname(os.path.dirname(HERE))
    parser.add_argument("--build", default=os.path.join(source, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--side", choices=["tandem", "torch"], help="of a child of this program")
    parser.add_argument("--data", help="of a child")
    parser.add_argument("--variant", help="of a child")
    given = parser.parse_args()
    if given.side == "tandem":
        print(json.dumps(tandem_side(Export(given.data), given.seconds)))
        return 0
    if given.side == "torch":
        print(json.dumps(torch_side(given.data, given.seconds, given.variant)))
        return 0
    if given.rounds < 1 or given.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    print(f"{machine.describe()}; commit {machine.commit(source)}; {machine.today()}", flush=True)
    other = machine.OtherWork()
    try:
        met = compare(Sides(os.path.abspath(given.build), given.seconds), given.rounds)
    except peer_setup.Missing as error:
        print(f"python_run: missing: {error}", file=sys.stderr)
        return peer_setup.EXIT_MISSING
    except Failed as error:
        print(f"python_run: error: {error}", file=sys.stderr)
        return 1
    print(f"other work on this machine: {other.share():.1%}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
