"""Pushes to and pulls from a parameter server."""

import contextlib
import os
import socket as socketlib
import statistics
import subprocess
import tempfile
import time

import deepfm_text
import machine
import peer_setup
from runner import HERE, Failed, Runner, compare, run_json

REDIS_START_S = 20


def free_port():
    with socketlib.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def redis(build_dir, folder, tcp=False):
    """A Redis that keeps everything in memory and listens at redis.sock in `folder`. With `tcp`,
    it also listens at the port of loopback that the file redis.port names."""
    program, env = peer_setup.redis_server(build_dir)
    socket = os.path.join(folder, "redis.sock")
    port = free_port() if tcp else 0
    with open(os.path.join(folder, "redis.port"), "w", encoding="ascii") as file:
        file.write(str(port))
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--unixsocket", socket, "--save", "", "--appendonly", "no",
               "--dir", folder]
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + REDIS_START_S
            while not os.path.exists(socket):
                if server.poll() is not None or time.monotonic() > end:
                    raise Failed(f"{program} does not start")
                time.sleep(0.05)
            yield
        finally:
            server.terminate()


class PserverFigures(Runner):
    def ps_dense(self, name, side, peer, peer_name, limit_name, measure=None,
                 unit="_mb_per_s"):
        """Rounds of `name`, in each of which the sides are measured one after another."""
        work = machine.OtherWork()
        measure = measure or (lambda: self.ours(name, 1, self.args.seconds))
        runs = [measure() for _ in range(self.args.rounds)]
        others = work.share()
        of = lambda field: [r[field] for r in runs]
        theirs = of(peer + unit)
        out = compare(of(side + unit), theirs, statistics.median(theirs),
                      lower_is_better=False)
        out["peer_name"], out["limit_name"] = peer_name, limit_name
        for field in runs[0]:
            if field not in (side + unit, peer + unit):
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

    def ps_vs_stores(self):
        work = machine.OtherWork()
        runs = []
        for _ in self.rounds("ps_vs_stores"):
            with tempfile.TemporaryDirectory() as folder, redis(self.build_dir, folder):
                runs.append(self.ours("ps_vs_stores", 1, self.args.seconds,
                                      "--export_dir=" + folder))
        others = work.share()
        median = {field: statistics.median(r[field] for r in runs) for field in runs[0]}
        names = {"redis": "Redis MGET over its Unix socket, 2 requests under way",
                 "rocksdb": "RocksDB MultiGet in the process, everything in its cache"}
        better = max(names, key=lambda store: median[store + "_rows_per_s"])
        theirs = [r[better + "_rows_per_s"] for r in runs]
        out = compare([r["pull_rows_per_s"] for r in runs], theirs, statistics.median(theirs),
                      lower_is_better=False)
        out["peer_name"], out["limit_name"] = names[better], "none"
        out["lane"] = "shared memory"
        out.update(median)
        for zipf in ("", "zipf_"):
            for store in names:
                out[f"{zipf}ratio_{store}"] = round(
                    median[zipf + "pull_rows_per_s"] / median[f"{zipf}{store}_rows_per_s"], 2)
        out["others_share"] = round(others, 3)
        return out

    def lookup_vs_redis(self):
        work, runs = machine.OtherWork(), []
        for _ in self.rounds("lookup_vs_redis"):
            with tempfile.TemporaryDirectory() as folder, redis(self.build_dir, folder, tcp=True):
                runs.append(self.ours("lookup_vs_redis", 1, self.args.seconds,
                                      "--export_dir=" + folder))
        others = work.share()
        median = {field: statistics.median(r[field] for r in runs) for field in runs[0]}
        theirs = [r["redis_mget_rows_per_s"] for r in runs]
        out = compare([r["resp_mget_rows_per_s"] for r in runs], theirs, statistics.median(theirs),
                      lower_is_better=False)
        out["peer_name"] = "Redis MGET over loopback, the same client and the same bytes"
        out["limit_name"] = "none"
        out.update({field: round(value) for field, value in median.items()})
        for way in ("get", "unix_mget", "unix_get"):
            place, command = way.rpartition("_")[::2]
            place += "_" if place else ""
            out["ratio_" + way] = round(median[f"{place}resp_{command}_rows_per_s"]
                                        / median[f"{place}redis_{command}_rows_per_s"], 2)
        for lane in ("shm", "grpc"):
            out["ratio_" + lane] = round(median[lane + "_rows_per_s"]
                                         / median["redis_mget_rows_per_s"], 2)
        out["others_share"] = round(others, 3)
        return out

    def predict_deepfm(self):
        """Compares calls of the model in the process, 64 samples each; the other ways are fields."""
        python = peer_setup.onnx_python(self.build_dir)
        work, runs, peers = machine.OtherWork(), [], []
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            model = os.path.join(folder, "model.onnx")
            for _ in self.rounds("predict_deepfm"):
                runs.append(self.ours("predict_deepfm", 2, self.args.seconds,
                                      "--export_dir=" + folder))
                peers.append(run_json([python, os.path.join(HERE, "peer_onnx.py"), model, "2",
                                       str(self.args.seconds)], what="peer_onnx.py"))
        out = compare([r["local_call_64_requests_per_s"] for r in runs],
                      [p["64_requests_per_s"] for p in peers], 0, lower_is_better=False)
        out["peer_name"] = "onnxruntime " + peers[0]["version"] + " in its process, the same model"
        out["limit_name"] = "none"
        for field in runs[0]:
            out[field] = round(statistics.median(r[field] for r in runs))
        for field in peers[0]:
            if field != "version":
                out["peer_" + field] = round(statistics.median(p[field] for p in peers))
        out["others_share"] = round(work.share(), 3)
        return out

    def deepfm_end_to_end(self):
        python = peer_setup.text_python(self.build_dir)
        work, ours, running, peer = machine.OtherWork(), [], [], []
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            self.ours("reader_text", 1, 0.1, "--export_dir=" + data)
            job = deepfm_text.write_job(data, os.path.join(data, "criteo.tsv"), threads=2)
            command = [python, os.path.join(HERE, "peer_deepfm_text.py"),
                       *map(str, (os.path.join(data, deepfm_text.FILE), *deepfm_text.SIZES, 2))]
            for _ in self.rounds("deepfm_end_to_end"):
                whole, once_running = deepfm_text.samples_per_s(self.bin_dir, job)
                ours.append(whole)
                running.append(once_running)
                peer.append(run_json(command, what="peer_deepfm_text.py"))
        out = compare(ours, [p["from_text"] for p in peer], 0, lower_is_better=False)
        arrays = statistics.median(p["from_arrays"] for p in peer)
        out.update(peer_name="PyTorch with sparse embeddings, the same text read by pyarrow",
                   limit_name="none", peer_from_arrays=round(arrays),
                   ratio_to_arrays=round(statistics.median(ours) / arrays, 3),
                   ours_once_running=round(statistics.median(running)),
                   others_share=round(work.share(), 3))
        return out
