"""Pushes to and pulls from a parameter server."""

import statistics

import machine
from runner import Runner, compare


class PserverFigures(Runner):
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
        for field in ("table_rows_per_s", "grpc_pull_rows_per_s", "zipf_table_rows_per_s",
                      "zipf_pull_rows_per_s", "zipf_push_rows_per_s", "zipf_bare_rows_per_s"):
            out[field] = statistics.median(r[field] for r in runs)
        out["zipf_ratio"] = round(out["zipf_pull_rows_per_s"] / out["zipf_bare_rows_per_s"], 3)
        out["others_share"] = round(others, 3)
        return out
