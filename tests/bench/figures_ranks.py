"""Several processes that train together: allreduce, data parallelism, hybrid mode."""

import statistics
import tempfile

import data_parallel
import hybrid_deepfm
import machine
import peer_setup
from runner import Runner, compare, run_json

ALLREDUCE_SIZES = ("4 B", "64 KB", "256 KB", "1 MB", "4 MB", "16 MB")  # kSizes of allreduce.h
HOST_SIZES = ("4 KB", "256 KB", "4 MB", "64 MB")  # kHostSizes of hierarchical_hosts.cc
TLS_GOALS = {"mlp": 35.0, "lenet": 10.0}  # percent of the speed that TLS may cost
TLS_SIDES = {"clear": [], "tls": ["--tls"]}


def by_size(columns):
    """{size: {side: microseconds}}."""
    return {size: {name: round(us[i], 2) for name, us in columns.items()}
            for i, size in enumerate(ALLREDUCE_SIZES)}


def least(table, peer, ours, sizes):
    """(ratio, row) of the size where the peer is least slower."""
    rows = [table[size] for size in sizes]
    return min(((row[peer] / row[ours], row) for row in rows), key=lambda pair: pair[0])


class RanksFigures(Runner):
    # ---- Allreduce among processes ----

    def mpi(self, ranks, *more):
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), *more,
                   peer_setup.allreduce(self.build_dir, "mpi"), str(self.args.seconds)]
        return run_json(command, what="Open MPI")["us"]

    def gloo(self, ranks):
        with tempfile.TemporaryDirectory() as folder:
            return run_json([peer_setup.allreduce(self.build_dir, "gloo"), str(self.args.seconds),
                             str(ranks), folder], what="Gloo")["us"]

    def rounds_of(self, what, sides):
        """{name: [microseconds by size]} of each side, the median over alternating rounds."""
        taken = {name: [] for name in sides}
        for _ in self.rounds(what):
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
            us = self.rounds_of(f"allreduce_shm, {ranks} ranks",
                                {"ours": both, "Open MPI": lambda ranks=ranks: self.mpi(ranks)})
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
        us = self.rounds_of("allreduce_tcp", {
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

    # ---- Hosts ----

    def hierarchical_hosts(self):
        work, taken = machine.OtherWork(), []
        for _ in self.rounds("hierarchical_hosts"):
            taken.append(self.ours("hierarchical_hosts", 1, self.args.seconds))
        columns = {name: [statistics.median(us) for us in zip(*(one[name] for one in taken))]
                   for name in taken[0]}
        table = {}
        for i, size in enumerate(HOST_SIZES):
            row = {name: columns[name][i] for name in columns if name != "bytes"}
            table[size] = {name: round(us) for name, us in row.items()}
            for form in ("leaders", "shards"):
                ratio = row["ring_us"] / row[f"{form}_us"]
                predicted = row["ring_predicted_us"] / row[f"{form}_predicted_us"]
                table[size][f"{form}_ratio"] = round(ratio, 3)
                table[size][f"{form}_ratio_predicted"] = round(predicted, 3)
        worst = min(table.values(), key=lambda row: row["shards_ratio"])
        off = max(abs(row[f"{form}_ratio_predicted"] / row[f"{form}_ratio"] - 1)
                  for row in table.values() for form in ("leaders", "shards"))
        out = compare([worst["shards_us"]], [worst["ring_us"]], 0, lower_is_better=True)
        out.update(peer_name="the flat ring", limit_name="none", runs=self.args.rounds, us=table,
                   prediction_off_by=round(off, 3), others_share=round(work.share(), 3))
        return out

    # ---- Two ranks against two processes alone ----

    def dp_efficiency(self):
        python = peer_setup.torch_python(self.build_dir)
        work = machine.OtherWork()
        taken = {name: [] for name in (*data_parallel.NETWORKS, "PyTorch DDP, mlp")}
        for _ in self.rounds("dp_efficiency"):
            for name, network in data_parallel.NETWORKS.items():
                taken[name].append(data_parallel.round_of(network, self.bin_dir))
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

    def collective_tls(self):
        """Two ranks over TCP with TLS against the same with checksums only."""
        work = machine.OtherWork()
        taken = {(name, side): [] for name in TLS_GOALS for side in TLS_SIDES}
        for _ in self.rounds("collective_tls"):
            for name, side in taken:
                taken[name, side].append(data_parallel.tls_round(
                    data_parallel.NETWORKS[name], self.bin_dir, TLS_SIDES[side]))
        table = {}
        for name, goal in TLS_GOALS.items():
            clear, tls = taken[name, "clear"], taken[name, "tls"]
            costs = [100 * (1 - a.step_s / b.step_s) for a, b in zip(clear, tls)]
            cpu = [(b.cpu_s - a.cpu_s) / b.gigabytes for a, b in zip(clear, tls)]
            table[name] = {"percent": round(statistics.median(costs), 1), "goal": goal,
                           "spread": [round(min(costs), 1), round(max(costs), 1)],
                           "clear_ms": round(1e3 * statistics.median(a.step_s for a in clear), 3),
                           "tls_ms": round(1e3 * statistics.median(b.step_s for b in tls), 3),
                           "cpu_s_per_GB": round(statistics.median(cpu), 3)}
        costs = [100 * (1 - a.step_s / b.step_s)
                 for a, b in zip(taken["mlp", "clear"], taken["mlp", "tls"])]
        out = compare([max(cost, 0.1) for cost in costs], [TLS_GOALS["mlp"]], 0,
                      lower_is_better=True)
        out.update(peer_name="the goal itself, for the mlp of 12.6 M parameters",
                   limit_name="none", networks=table, others_share=round(work.share(), 3))
        return out

    def hybrid_deepfm(self):
        work, rounds = machine.OtherWork(), []
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            job = hybrid_deepfm.write_job(folder)
            for _ in self.rounds("hybrid_deepfm"):
                rounds.append(hybrid_deepfm.round_of(self.bin_dir, job))
        speed = {mode: [one[mode][0] for one in rounds] for mode in hybrid_deepfm.MODES}
        best = max(("pserver", "collective"), key=lambda mode: statistics.median(speed[mode]))
        out = compare(speed["hybrid"], speed[best], 0, lower_is_better=False)
        out.update(peer_name=best + " mode, the faster of the pure ones", limit_name="none",
                   modes={mode: {"samples_per_s": round(statistics.median(speed[mode])),
                                 "auc": rounds[-1][mode][1], "bytes_per_step": rounds[-1][mode][2]}
                          for mode in hybrid_deepfm.MODES},
                   others_share=round(work.share(), 3))
        return out
