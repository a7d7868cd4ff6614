"""Takes the figures named on the command line: Tandem and its peer in turns, one JSON object each.
With --record, trusted figures become rows of the recorded results. tests/bench/run.sh is the way
in; it checks the names."""

import argparse
import json
import os
import statistics
import sys

import machine
import peer_setup
import programs
import results
import table
from figures_durability import DurabilityFigures
from figures_jobs import JobsFigures
from figures_ranks import RanksFigures
from figures_readers import ReaderFigures
from figures_rest import RestFigures
from figures_training import TrainingFigures
from runner import ROOT, ROUNDS_MIN, Failed, compare, figures, progress

EXIT_FAILED, EXIT_USAGE = 1, 2


class Bench(TrainingFigures, DurabilityFigures, ReaderFigures, RanksFigures, JobsFigures,
            RestFigures):
    def op_overhead(self):
        goal_ns = 50.0
        work = machine.OtherWork()
        runs = [self.ours("op_overhead", 1, self.args.seconds) for _ in range(self.args.rounds)]
        others = work.share()
        limit = statistics.median(r["ns_per_op_bare_loop"] for r in runs)
        out = compare([r["ns_per_op"] for r in runs], [goal_ns], limit, lower_is_better=True)
        out["peer_name"] = "the goal itself: 50 ns"
        out["limit_name"] = "the same empty kernels called in a bare loop"
        out["others_share"] = round(others, 3)
        out["scale_of_one_element"] = statistics.median(
            r["ns_per_op_scale_one_element"] for r in runs)
        return out


# The available figures; figures.tsv marks the same ones.
FIGURES = {
    "op_overhead": Bench.op_overhead,
    "mlp40_step": Bench.mlp40_step,
    "lenet_train": Bench.lenet_train,
    "deepfm_dense": Bench.deepfm_dense,
    "transformer_lm": Bench.transformer_lm,
    "bert_base": Bench.bert_base,
    "bert_base_512": Bench.bert_base_512,
    "resnet18_cifar": Bench.resnet18_cifar,
    "resnet50_f32": Bench.resnet50_f32,
    "resnet50_bf16": Bench.resnet50_bf16,
    "transformer_lm_bf16": Bench.transformer_lm_bf16,
    "resnet18_cifar_bf16": Bench.resnet18_cifar_bf16,
    "ps_dense_tcp": Bench.ps_dense_tcp,
    "ps_dense_fast": Bench.ps_dense_fast,
    "ps_pull_fast": Bench.ps_pull_fast,
    "ps_sparse_pull": Bench.ps_sparse_pull,
    "deepfm_end_to_end": Bench.deepfm_end_to_end,
    "ps_vs_stores": Bench.ps_vs_stores,
    "lookup_vs_redis": Bench.lookup_vs_redis,
    "predict_deepfm": Bench.predict_deepfm,
    "ps_exactly_once": Bench.ps_exactly_once,
    "ps_logged": Bench.ps_logged,
    "ps_quorum": Bench.ps_quorum,
    "ps_follow": Bench.ps_follow,
    "stream_lag": Bench.stream_lag,
    "ps_changes": Bench.ps_changes,
    "ps_snapshot": Bench.ps_snapshot,
    "ps_recovery": Bench.ps_recovery,
    "reader_text": Bench.reader_text,
    "reader_jpeg": Bench.reader_jpeg,
    "allreduce_shm": Bench.allreduce_shm,
    "allreduce_tcp": Bench.allreduce_tcp,
    "dp_efficiency": Bench.dp_efficiency,
    "hybrid_deepfm": Bench.hybrid_deepfm,
    "hierarchical_hosts": Bench.hierarchical_hosts,
    "data_wait": Bench.data_wait,
    "job_start": Bench.job_start,
    "idle_cpu": Bench.idle_cpu,
    "collective_tls": Bench.collective_tls,
    "tls_overhead": Bench.tls_overhead,
}


def take(bench, name):
    unit, goal = next((row.unit, row.goal) for row in figures() if row.name == name)
    busy = machine.gate(bench.args.wait_idle_s)
    if bench.args.record and (why := results.busy_refusal(busy)):
        raise NotRecorded(f"{name} is not measured, because it would not be recorded: {why}")
    commit = machine.commit(ROOT)
    figure = {"name": name, "unit": unit, "goal": goal, **FIGURES[name](bench),
              "busy_at_start": round(busy, 3)}
    figure["trusted"] = (results.others_of(figure) <= machine.BUSY_SHARE_MAX
                         and figure["runs"] >= ROUNDS_MIN)
    # If the goal is a bound, the bound is the peer. A run that is not trustworthy meets no goal.
    met = figure["ratio"] >= (1 if goal.startswith(("<=", ">=")) else float(goal))
    met = met and figure.get("bounds_met", True)  # further conditions of the goal
    figure["goal_met"] = met if figure["trusted"] else None
    figure.update(machine=machine.describe(), date=machine.today(), commit=commit)
    return figure


class NotRecorded(Exception):
    """A figure was to be recorded and is not trusted; the text has the reason."""


def record(figure):
    if why := results.refusal(figure):
        raise NotRecorded(f"{figure['name']} is not recorded: {why}")
    path = results.record(figure, machine.cpu_kind())
    progress(f"{figure['name']} is recorded in {path} and {table.write()}; commit both files")


def check_record(rounds):
    """Refuses --record before anything is built or measured. Returns an exit code, 0 if allowed."""
    for why, code in ((results.rounds_refusal(rounds), EXIT_USAGE),
                      (results.commit_refusal(machine.commit(ROOT)), EXIT_FAILED)):
        if why:
            print(f"bench: error: --record: {why}", file=sys.stderr)
            return code
    return 0


def take_all(args):
    """Prints each figure, and records it with --record. Returns whether all are recorded that were
    to be."""
    bench, complete = Bench(args), True
    for name in args.names:
        try:
            figure = take(bench, name)
            line = json.dumps(figure)
            print(line, flush=True)
            if args.out:
                with open(args.out, "a", encoding="utf-8") as out:
                    out.write(line + "\n")
            if args.record:
                record(figure)
        except NotRecorded as error:
            complete = False
            print(f"bench: error: {error}", file=sys.stderr)
    return complete


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", choices=sorted(FIGURES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--wait_idle_s", type=float, default=0)
    parser.add_argument("--out", help="also append to this file")
    parser.add_argument("--record", action="store_true", help="record trusted figures")
    args = parser.parse_args()
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    if args.record and (code := check_record(args.rounds)):
        return code
    if args.rounds < ROUNDS_MIN:
        progress(f"warning: {args.rounds} rounds; a figure to be quoted takes {ROUNDS_MIN}")
    try:
        if args.record:
            programs.build(os.environ.get("TANDEM_BUILD_DIR", os.path.join(ROOT, "build")),
                           args.names)
        return 0 if take_all(args) else EXIT_FAILED
    except peer_setup.Missing as error:
        print(f"bench: missing: {error}", file=sys.stderr)
        return peer_setup.EXIT_MISSING
    except Failed as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
