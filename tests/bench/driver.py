"""Takes the figures named on the command line: Tandem and its peer in turns, one JSON object each.
tests/bench/run.sh is the way in; it checks the names."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import data_parallel
import hybrid_deepfm
import machine
import peer_setup
from peer_setup import Failed

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CHECK_STEPS = 20
CHECK_STEPS_OF = {"resnet18_cifar": 5, "resnet50_f32": 3, "resnet50_bf16": 3}  # seconds each
CHECK_RELATIVE = 1e-3  # largest difference of the losses of both sides
CHECK_RELATIVE_BF16 = 5e-2  # each rounds elsewhere
# ResNet-50 makes rounding larger, for both sides alike (docs/benchmarks/mixed-precision.md).
CHECK_RELATIVE_OF = {"resnet50_f32": 3e-2}
RUN_TIMEOUT_S = 600
TUNE_FINALISTS = 3
ROUNDS_MIN = 5  # of a figure to be quoted
EXIT_FAILED = 1


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


def check_losses(ours, theirs, who, relative=CHECK_RELATIVE):
    """Largest relative difference of two lists of losses; they must agree and must move."""
    if len(ours) != len(theirs) or not ours:
        raise Failed(f"{who}: {len(theirs)} losses, expected {len(ours)}")
    worst = max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(ours, theirs))
    if not worst <= relative:
        raise Failed(f"{who}: losses differ by {worst:.2g} relative, at most {relative} is "
                     f"allowed\n  Tandem: {ours}\n  peer:   {theirs}")
    if abs(ours[-1] - ours[0]) < 0.01 * abs(ours[0]):
        raise Failed(f"the loss did not move ({ours[0]} to {ours[-1]}): nothing was compared")
    return worst


def tolerance(name):
    default = CHECK_RELATIVE_BF16 if name.endswith("_bf16") else CHECK_RELATIVE
    return CHECK_RELATIVE_OF.get(name, default)


class Bench:
    def __init__(self, args):
        self.args = args
        self.build_dir = os.environ.get("TANDEM_BUILD_DIR", os.path.join(ROOT, "build"))
        self.program = os.path.join(self.build_dir, "bench", "tandem-figures")
        if not os.access(self.program, os.X_OK):
            raise peer_setup.Missing(f"{self.program}\nhint: build it with deploy/build.sh")

    def ours(self, name, threads, seconds, *more):
        return run_json([self.program, name, f"--threads={threads}", f"--seconds={seconds}", *more],
                        what="tandem-figures " + name)

    # ---- Training against PyTorch ----

    def torch(self, name, data, threads, seconds, env, variants=""):
        check_steps = CHECK_STEPS_OF.get(name, CHECK_STEPS)
        command = [self.python, os.path.join(HERE, "peer_torch.py"), name, f"--data={data}",
                   f"--threads={threads}", f"--seconds={seconds}", f"--check_steps={check_steps}"]
        if variants:
            command.append("--variants=" + variants)
        return run_json(command, env, "PyTorch " + name)

    def tune_torch(self, name, data, threads, losses):
        """Tries every setting shortly and the best few for as long as a round. Returns the table of
        times, the best (setting, environment, variant), the largest difference of losses, and the
        peer's version."""
        table, order, worst, version = {}, [], 0.0, ""
        for setting, env in peer_setup.settings(self.build_dir, threads):
            progress(f"{name}, {threads} threads: trying the peer with: {setting}")
            result = self.torch(name, data, threads, min(0.5, self.args.seconds), env)
            version = result["version"]
            for variant, one in result["variants"].items():
                if "error" in one:
                    table[f"{setting}: {variant}"] = one["error"]
                    continue
                worst = max(worst, check_losses(losses, one["losses"], f"PyTorch {variant}",
                                                tolerance(name)))
                table[f"{setting}: {variant}"] = round(one["us_per_step"], 2)
                order.append((one["us_per_step"], setting, env, variant))
        if not order:
            raise Failed(f"PyTorch ran with no setting: {table}")
        again = []
        for _, setting, env, variant in sorted(order, key=lambda row: row[0])[:TUNE_FINALISTS]:
            progress(f"{name}, {threads} threads: once more: {variant}, {setting}")
            result = self.torch(name, data, threads, self.args.seconds, env, variant)
            again.append((result["variants"][variant]["us_per_step"], setting, env, variant))
        return table, min(again, key=lambda row: row[0])[1:], worst, version

    def against_torch(self, name, threads, field, per_sample=1):
        """Rounds of both sides. field: us_per_step, or samples_per_s of the runs' results, which is
        given in parts of a sample where it has `per_sample` of them."""
        check_steps = CHECK_STEPS_OF.get(name, CHECK_STEPS)
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            first = self.ours(name, threads, 0.1, f"--check_steps={check_steps}",
                              "--export_dir=" + data)
            table, (setting, env, variant), worst, version = self.tune_torch(
                name, data, threads, first["losses"])
            compiled = [self.compiled(name, data, threads, env)]  # fills the compiler's cache
            ours, peer, work = [], [], machine.OtherWork()
            for round_index in range(self.args.rounds):
                progress(f"{name}, {threads} threads: round {round_index + 1} of "
                         f"{self.args.rounds}, peer: {variant}, {setting}")
                ours.append(self.ours(name, threads, self.args.seconds,
                                      f"--check_steps={check_steps}"))
                one = self.torch(name, data, threads, self.args.seconds, env, variant)
                peer.append(one["variants"][variant])
                worst = max(worst, check_losses(ours[-1]["losses"], peer[-1]["losses"], "PyTorch",
                                                tolerance(name)))
                if "error" not in compiled[-1]:
                    compiled.append(self.compiled(name, data, threads, env))
            others = work.share()
        less = field == "us_per_step"
        limit_us = first["flops_per_step"] / (max(r["sgemm_gflops"] for r in ours) * 1e3)
        batch = first["samples_per_s"] * first["us_per_step"] / 1e6
        of = lambda runs: [r[field] * per_sample for r in runs]
        out = compare(of(ours), of(peer),
                      limit_us if less else batch * per_sample * 1e6 / limit_us, less)
        out["peer_name"] = f"PyTorch {version} eager, {threads} threads, {variant}, {setting}"
        out["limit_name"] = "the products of the step at the speed of a 1024^3 sgemm"
        out["loss_difference"] = worst
        out["others_share"] = round(others, 3)
        out["peer_settings_us"] = table
        if "error" in compiled[-1]:
            out["torch_compile"] = compiled[-1]["error"]
        else:
            beside = compare(of(ours), of(compiled[1:]), 0, less)
            out["torch_compile"] = {"peer": beside["peer"], "ratio": beside["ratio"],
                                    "spread": beside["spread"]["peer"]}
        return out

    def compiled(self, name, data, threads, env):
        """One run of the peer through torch.compile, or {"error": why there is none}."""
        variant = "compile+fused"
        try:
            return self.torch(name, data, threads, self.args.seconds, env, variant)[
                "variants"][variant]
        except Failed as error:
            return {"error": str(error).splitlines()[0]}

    def mlp40_step(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("mlp40_step", 1, "us_per_step")

    def lenet_train(self):
        self.python = peer_setup.torch_python(self.build_dir)
        out = self.against_torch("lenet_train", 2, "samples_per_s")
        out["one_thread"] = self.against_torch("lenet_train", 1, "samples_per_s")
        return out

    def deepfm_dense(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("deepfm_dense", 2, "samples_per_s")

    def transformer_lm(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("transformer_lm", 2, "samples_per_s", per_sample=128)

    def resnet18_cifar(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("resnet18_cifar", 2, "samples_per_s")

    def resnet50_f32(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("resnet50_f32", 2, "samples_per_s")

    def resnet50_bf16(self):
        self.python = peer_setup.torch_python(self.build_dir)
        return self.against_torch("resnet50_bf16", 2, "samples_per_s")

    # ---- Mixed precision against the same network in f32 ----

    def against_f32(self, name, per_sample=1):
        """Rounds of `name` with amp and without."""
        halves, wholes, worst, work = [], [], 0.0, machine.OtherWork()
        steps = f"--check_steps={CHECK_STEPS_OF.get(name, CHECK_STEPS)}"
        for round_index in range(self.args.rounds):
            progress(f"{name}: round {round_index + 1} of {self.args.rounds}")
            halves.append(self.ours(name + "_bf16", 2, self.args.seconds, steps))
            wholes.append(self.ours(name, 2, self.args.seconds, steps))
            worst = max(worst, check_losses(halves[-1]["losses"], wholes[-1]["losses"], "f32",
                                            CHECK_RELATIVE_BF16))
        others = work.share()
        of = lambda runs: [r["samples_per_s"] * per_sample for r in runs]
        out = compare(of(halves), of(wholes), 0, lower_is_better=False)
        out["peer_name"] = "the same in f32, 2 threads"
        out["limit_name"] = "none: bf16 products run at several times the speed of f32 ones"
        out["loss_difference"] = worst
        out["others_share"] = round(others, 3)
        return out

    def transformer_lm_bf16(self):
        return self.against_f32("transformer_lm", per_sample=128)

    def resnet18_cifar_bf16(self):
        return self.against_f32("resnet18_cifar")

    # ---- Parameter servers ----

    def ps_dense(self, name, side, peer, peer_name, limit_name):
        """Rounds of `name`, in each of which the sides are measured one after another."""
        work = machine.OtherWork()
        runs = [self.ours(name, 1, self.args.seconds) for _ in range(self.args.rounds)]
        others = work.share()
        of = lambda field: [r[field] for r in runs]
        theirs = of(peer + "_mb_per_s")
        out = compare(of(side + "_mb_per_s"), theirs, statistics.median(theirs),
                      lower_is_better=False)
        out["peer_name"], out["limit_name"] = peer_name, limit_name
        for field in runs[0]:
            if field not in (side + "_mb_per_s", peer + "_mb_per_s"):
                out[field] = round(statistics.median(of(field)), 4)
        out["others_share"] = round(others, 3)
        return out

    def ps_dense_tcp(self):
        return self.ps_dense("ps_dense_tcp", "push", "plain",
                             "unary gRPC calls with the gradient in a protobuf field, 4 callers",
                             "none")

    def ps_dense_fast(self):
        return self.ps_dense("ps_dense_fast", "push", "bare",
                             "a bare ring in shared memory whose reader runs the same SGD",
                             "the same ring")

    def ps_pull_fast(self):
        return self.ps_dense("ps_pull_fast", "pull", "memcpy", "memcpy of as many bytes",
                             "the same")

    def ps_sparse_pull(self):
        work = machine.OtherWork()
        runs = [self.ours("ps_sparse_pull", 1, self.args.seconds)
                for _ in range(self.args.rounds)]
        others = work.share()
        bare = [r["bare_rows_per_s"] for r in runs]
        out = compare([r["pull_rows_per_s"] for r in runs], bare, statistics.median(bare),
                      lower_is_better=False)
        out["peer_name"] = "a bare loop that gathers the rows from a hash table in the process"
        out["limit_name"] = "the same loop"
        out["lane"] = "shared memory"
        out["push_rows_per_s"] = statistics.median(r["push_rows_per_s"] for r in runs)
        for field in ("table_rows_per_s", "grpc_pull_rows_per_s", "zipf_table_rows_per_s", "zipf_pull_rows_per_s",
                      "zipf_push_rows_per_s", "zipf_bare_rows_per_s"):
            out[field] = statistics.median(r[field] for r in runs)
        out["zipf_ratio"] = round(out["zipf_pull_rows_per_s"] / out["zipf_bare_rows_per_s"], 3)
        out["others_share"] = round(others, 3)
        return out

    # ---- Readers ----

    def reader_text(self):
        python = peer_setup.arrow_python(self.build_dir)
        formats = ("criteo", "csv", "libsvm")
        ours, peer, work = [], [], machine.OtherWork()
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            self.ours("reader_text", 1, 0.1, "--export_dir=" + data)  # writes the files
            for round_index in range(self.args.rounds):
                progress(f"reader_text: round {round_index + 1} of {self.args.rounds}")
                ours.append(self.ours("reader_text", 1, self.args.seconds, "--export_dir=" + data))
                peer.append(run_json([python, os.path.join(HERE, "peer_arrow.py"), data,
                                      str(self.args.seconds)], what="pyarrow"))
                for name in formats:
                    if ours[-1][name + "_sums"] != peer[-1][name + "_sums"]:
                        raise Failed(f"{name}: the sides read other records: {ours[-1]}, {peer[-1]}")
        others = work.share()
        table = {}
        for name in formats:
            mine = [r[name + "_mb_per_s"] for r in ours]
            best = [max(r[name].values()) for r in peer]
            table[name] = compare(mine, best, statistics.median(r["lines_mb_per_s"] for r in ours),
                                  lower_is_better=False)
        out = dict(min(table.values(), key=lambda row: row["ratio"]))
        out["peer_name"] = f"pyarrow {peer[0]['version']}, the best of its settings in each round"
        out["limit_name"] = "lines of the same file found and counted"
        out["formats"] = {name: {"ours": round(row["ours"]), "peer": round(row["peer"]),
                                 "ratio": row["ratio"]} for name, row in table.items()}
        out["peer_settings"] = {name: peer[-1][name] for name in formats}
        out["others_share"] = round(others, 3)
        return out

    def reader_jpeg(self):
        python = peer_setup.images_python(self.build_dir)
        ours, peer, work = [], [], machine.OtherWork()
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            self.ours("reader_jpeg", 1, 0.1, "--export_dir=" + data)  # writes the files
            for round_index in range(self.args.rounds):
                progress(f"reader_jpeg: round {round_index + 1} of {self.args.rounds}")
                ours.append(self.ours("reader_jpeg", 1, self.args.seconds, "--export_dir=" + data))
                peer.append(run_json([python, os.path.join(HERE, "peer_images.py"), data,
                                      str(self.args.seconds)], what="OpenCV and torchvision"))
                # Rectangles are drawn on both sides: means over all samples agree nearly.
                if abs(ours[-1]["mean"] - peer[-1]["mean"]) > 0.05:
                    raise Failed(f"the samples differ: mean {ours[-1]['mean']:.3f} and "
                                 f"{peer[-1]['mean']:.3f}")
        others = work.share()
        ways = [name for name in peer[0] if name not in ("version", "mean")]
        out = compare([r["images_per_s"] for r in ours], [max(r[w] for w in ways) for r in peer],
                      statistics.median(r["whole_decodes_per_s"] for r in ours),
                      lower_is_better=False)
        out["peer_name"] = f"the best of OpenCV {peer[0]['version']} and torchvision in each round"
        out["limit_name"] = "decoding the whole images and nothing else"
        out["peer_settings"] = {w: statistics.median(r[w] for r in peer) for w in ways}
        out["others_share"] = round(others, 3)
        return out

    # ---- Allreduce among processes ----

    def mpi(self, ranks, *more):
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), *more,
                   peer_setup.allreduce(self.build_dir, "mpi"), str(self.args.seconds)]
        return run_json(command, what="Open MPI")["us"]

    def gloo(self, ranks):
        with tempfile.TemporaryDirectory() as folder:
            return run_json([peer_setup.allreduce(self.build_dir, "gloo"), str(self.args.seconds),
                             str(ranks), folder], what="Gloo")["us"]

    def rounds_of(self, sides):
        """{name: [microseconds by size]} of each side, the median over alternating rounds."""
        taken = {name: [] for name in sides}
        for round_index in range(self.args.rounds):
            progress(f"round {round_index + 1} of {self.args.rounds}")
            for name, side in sides.items():
                taken[name].append(side())
        return {name: [statistics.median(column) for column in zip(*rows)]
                for name, rows in taken.items()}

    def allreduce_shm(self):
        work = machine.OtherWork()
        tables, worst = {}, {}
        for ranks in (2, 4):
            def both(ranks=ranks):
                one = self.ours("allreduce_shm", ranks, self.args.seconds)
                return one["arena_us"] + one["private_us"]
            us = self.rounds_of({"ours": both, "Open MPI": lambda ranks=ranks: self.mpi(ranks)})
            table = by_size({"arena": us["ours"][:len(ALLREDUCE_SIZES)],
                             "private": us["ours"][len(ALLREDUCE_SIZES):],
                             "Open MPI": us["Open MPI"]})
            tables[f"{ranks} ranks"] = table
            worst[ranks] = least(table, "Open MPI", "arena", ALLREDUCE_SIZES[1:])
        out = compare([worst[2][1]["arena"]], [worst[2][1]["Open MPI"]], 0, lower_is_better=True)
        out.update(peer_name="Open MPI, its own choice of transport and algorithm",
                   limit_name="none", runs=self.args.rounds, us=tables,
                   others_share=round(work.share(), 3),
                   ratio_with_4_ranks=round(worst[4][0], 3),
                   ratio_of_private_buffers=round(min(
                       row["Open MPI"] / row["private"] for table in tables.values()
                       for row in table.values()), 3))
        return out

    def allreduce_tcp(self):
        work = machine.OtherWork()
        us = self.rounds_of({
            "tcp": lambda: self.ours("allreduce_tcp", 2, self.args.seconds)["us"],
            "Gloo": lambda: self.gloo(2),
            "Open MPI": lambda: self.mpi(2, "--mca", "btl", "tcp,self")})
        table = by_size(us)
        worst = least(table, "Gloo", "tcp", ALLREDUCE_SIZES[3:])
        out = compare([worst[1]["tcp"]], [worst[1]["Gloo"]], 0, lower_is_better=True)
        out.update(peer_name="Gloo over TCP, its own choice of algorithm", limit_name="none",
                   runs=self.args.rounds, us={"2 ranks": table},
                   others_share=round(work.share(), 3),
                   ratio_at_4_bytes=round(table["4 B"]["Gloo"] / table["4 B"]["tcp"], 3))
        return out

    # ---- Two ranks against two processes alone ----

    def dp_efficiency(self):
        python = peer_setup.torch_python(self.build_dir)
        bin_dir, work = os.path.join(self.build_dir, "bin"), machine.OtherWork()
        taken = {name: [] for name in (*data_parallel.NETWORKS, "PyTorch DDP, mlp")}
        for round_index in range(self.args.rounds):
            progress(f"round {round_index + 1} of {self.args.rounds}")
            for name, network in data_parallel.NETWORKS.items():
                taken[name].append(data_parallel.round_of(network, bin_dir))
            with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
                taken["PyTorch DDP, mlp"].append(data_parallel.peer_round(python, folder))
        table = {}
        for name, pairs in taken.items():
            percents = [100 * alone / together for alone, together in pairs]
            table[name] = {"percent": round(statistics.median(percents), 1),
                           "spread": [round(min(percents), 1), round(max(percents), 1)],
                           "alone_ms": round(1e3 * statistics.median(a for a, _ in pairs), 3),
                           "together_ms": round(1e3 * statistics.median(t for _, t in pairs), 3)}
            if name in data_parallel.NETWORKS:
                table[name]["goal"] = data_parallel.NETWORKS[name].goal
        percents = [100 * alone / together for alone, together in taken["mlp"]]
        out = compare(percents, [data_parallel.NETWORKS["mlp"].goal], 100, lower_is_better=False)
        out.update(peer_name="the goal itself, for the mlp of 12.6 M parameters",
                   limit_name="two processes alone", networks=table,
                   others_share=round(work.share(), 3))
        return out

    def hybrid_deepfm(self):
        bin_dir, work, rounds = os.path.join(self.build_dir, "bin"), machine.OtherWork(), []
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            job = hybrid_deepfm.write_job(folder)
            for round_index in range(self.args.rounds):
                progress(f"round {round_index + 1} of {self.args.rounds}")
                rounds.append(hybrid_deepfm.round_of(bin_dir, job))
        speed = {mode: [one[mode][0] for one in rounds] for mode in hybrid_deepfm.MODES}
        best = max(("pserver", "collective"), key=lambda mode: statistics.median(speed[mode]))
        out = compare(speed["hybrid"], speed[best], 0, lower_is_better=False)
        out.update(peer_name=best + " mode, the faster of the pure ones", limit_name="none",
                   modes={mode: {"samples_per_s": round(statistics.median(speed[mode])),
                                 "auc": rounds[-1][mode][1], "bytes_per_step": rounds[-1][mode][2]}
                          for mode in hybrid_deepfm.MODES},
                   others_share=round(work.share(), 3))
        return out

    # ---- The executor alone ----

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


ALLREDUCE_SIZES = ("4 B", "64 KB", "256 KB", "1 MB", "4 MB", "16 MB")  # kSizes of allreduce.h


def by_size(columns):
    """{size: {side: microseconds}}."""
    return {size: {name: round(us[i], 2) for name, us in columns.items()}
            for i, size in enumerate(ALLREDUCE_SIZES)}


def least(table, peer, ours, sizes):
    """(ratio, row) of the size where the peer is least slower."""
    rows = [table[size] for size in sizes]
    return min(((row[peer] / row[ours], row) for row in rows), key=lambda pair: pair[0])


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


def rows():
    with open(os.path.join(HERE, "figures.tsv"), encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                name, unit, goal, _, _ = line.rstrip("\n").split("\t")
                yield name, (unit, goal)


# The figures that are built; figures.tsv marks the same ones.
FIGURES = {
    "op_overhead": Bench.op_overhead,
    "mlp40_step": Bench.mlp40_step,
    "lenet_train": Bench.lenet_train,
    "deepfm_dense": Bench.deepfm_dense,
    "transformer_lm": Bench.transformer_lm,
    "resnet18_cifar": Bench.resnet18_cifar,
    "resnet50_f32": Bench.resnet50_f32,
    "resnet50_bf16": Bench.resnet50_bf16,
    "transformer_lm_bf16": Bench.transformer_lm_bf16,
    "resnet18_cifar_bf16": Bench.resnet18_cifar_bf16,
    "ps_dense_tcp": Bench.ps_dense_tcp,
    "ps_dense_fast": Bench.ps_dense_fast,
    "ps_pull_fast": Bench.ps_pull_fast,
    "ps_sparse_pull": Bench.ps_sparse_pull,
    "reader_text": Bench.reader_text,
    "reader_jpeg": Bench.reader_jpeg,
    "allreduce_shm": Bench.allreduce_shm,
    "allreduce_tcp": Bench.allreduce_tcp,
    "dp_efficiency": Bench.dp_efficiency,
    "hybrid_deepfm": Bench.hybrid_deepfm,
}


def take(bench, name):
    unit, goal = dict(rows())[name]
    busy = machine.gate(bench.args.wait_idle_s)
    figure = {"name": name, "unit": unit, "goal": goal, **FIGURES[name](bench)}
    others = max([busy] + [part.get("others_share", 0)
                           for part in (figure, figure.get("one_thread", {}))])
    figure["trusted"] = others <= machine.BUSY_SHARE_MAX and figure["runs"] >= ROUNDS_MIN
    # Where the goal is a bound, the bound is the peer. Nothing is met by a run not to be trusted.
    met = figure["ratio"] >= (1 if goal.startswith(("<=", ">=")) else float(goal))
    figure["goal_met"] = met if figure["trusted"] else None
    figure.update(busy_at_start=round(busy, 3), machine=machine.describe(), date=machine.today(),
                  commit=machine.commit(ROOT))
    return figure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+", choices=sorted(FIGURES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--wait_idle_s", type=float, default=0)
    parser.add_argument("--out", help="also append to this file")
    args = parser.parse_args()
    if args.rounds < 1 or args.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    if args.rounds < ROUNDS_MIN:
        progress(f"warning: {args.rounds} rounds; a figure to be quoted takes {ROUNDS_MIN}")
    try:
        bench = Bench(args)
        for name in args.names:
            line = json.dumps(take(bench, name))
            print(line, flush=True)
            if args.out:
                with open(args.out, "a", encoding="utf-8") as out:
                    out.write(line + "\n")
    except peer_setup.Missing as error:
        print(f"bench: missing: {error}", file=sys.stderr)
        return peer_setup.EXIT_MISSING
    except Failed as error:
        print(f"bench: error: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
