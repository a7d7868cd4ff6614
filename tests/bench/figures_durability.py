"""What exactly-once pushes and checkpoints cost, and how soon a server is back."""

import os
import statistics
import subprocess
import tempfile
import threading
import time

import machine
from figures_pserver import PserverFigures
from runner import Failed, compare

P99_TIMES_MAX = 2
READY = "listening on"
READY_SECONDS_MAX = 120
READ_BYTES = 4 << 20


def files_of(folder):
    return [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]


def forget(folder):
    """Drops the folder's files from the page cache; they must have been written."""
    for path in files_of(folder):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(folder):
    """Seconds to read every byte of the folder into one piece of memory, and the bytes."""
    piece, total, start = bytearray(READ_BYTES), 0, time.monotonic()
    for path in files_of(folder):
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(piece):
                total += count
    return time.monotonic() - start, total


class DurabilityFigures(PserverFigures):
    def ps_exactly_once(self):
        without = os.path.join(self.build_dir, "bench", "tandem-figures-no_dedup")
        if not os.path.exists(without):
            raise Failed(f"no {without}; build the target tandem-figures-no_dedup")

        def measure():
            once = self.ours("ps_exactly_once", 1, self.args.seconds)
            repeated = self.ours("ps_exactly_once", 1, self.args.seconds, program=without)
            return {**once, "forgetful_mb_per_s": repeated["push_mb_per_s"],
                    "forgetful_small_pushes_per_s": repeated["small_pushes_per_s"]}

        out = self.ps_dense("ps_exactly_once", "push", "forgetful",
                            "the same server without deduplication", "the same", measure)
        out["small_ratio"] = round(
            out["small_pushes_per_s"] / out["forgetful_small_pushes_per_s"], 3)
        return out

    def ps_logged(self):
        return self.ps_dense("ps_logged", "logged", "written",
                             "one writer of the same bytes to a file on the same disk", "the same")

    def ps_quorum(self):
        out = self.ps_dense("ps_quorum", "quorum", "logged", "the same server without a standby",
                            "the same")
        out["small_ratio"] = round(
            out["quorum_small_pushes_per_s"] / out["logged_small_pushes_per_s"], 3)
        return out

    def ps_follow(self):
        return self.ps_dense("ps_follow", "followed", "alone",
                             "the same server without a replica", "the same")

    def stream_lag(self):
        work = machine.OtherWork()
        runs = [self.ours("stream_lag", 1, self.args.seconds) for _ in self.rounds("stream_lag")]
        out = compare([r["half_load_p99_ms"] / 1e3 for r in runs], [1.0], 1.0,
                      lower_is_better=True)
        out.update(peer_name="the goal itself: 1 s", limit_name="the same")
        for field in runs[0]:
            out[field] = round(statistics.median(r[field] for r in runs), 3)
        out["others_share"] = round(work.share(), 3)
        return out

    def ps_changes(self):
        return self.ps_dense("ps_changes", "followed", "alone",
                             "the same server without a follower", "the same", unit="_rows_per_s")

    def ps_snapshot(self):
        out = self.ps_dense("ps_snapshot", "cut", "alone",
                            "the same pushes and pulls without checkpoints", "the same")
        out["bounds_met"] = max(out["push_p99_times"], out["pull_p99_times"]) <= P99_TIMES_MAX
        return out

    def ready_s(self, folder):
        """From the start of a server over `folder` to its word that it listens."""
        command = [os.path.join(self.bin_dir, "tandem-pserver"), "--listen=127.0.0.1:0",
                   "--data_dir=" + folder]
        start = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            watch = threading.Timer(READY_SECONDS_MAX, server.kill)
            watch.start()
            try:
                line = server.stdout.readline()
                seconds = time.monotonic() - start
                if READY not in line or "restored" not in server.stdout.readline():
                    raise Failed(f"{' '.join(command)} did not restore its checkpoint: {line}")
            finally:
                watch.cancel()
                server.kill()  # without a checkpoint at the end
        return seconds

    def ps_recovery(self):
        work = machine.OtherWork()
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            made = self.ours("ps_recovery", 1, 1, "--export_dir=" + folder)
            ours, reads, cold, cold_reads = [], [], [], []
            for _ in self.rounds("ps_recovery"):
                forget(folder)
                cold_reads.append(read_all(folder)[0])
                forget(folder)
                cold.append(self.ready_s(folder))
                reads.append(read_all(folder)[0])
                ours.append(self.ready_s(folder))
            on_disk = read_all(folder)[1]
        read, cold_read = statistics.median(reads), statistics.median(cold_reads)
        out = compare(ours, [1.3 * read + 1], read, lower_is_better=True)
        out.update(peer_name="the goal itself: 1.3 times of reading all files, and 1 s",
                   limit_name="reading all files, from the page cache",
                   from_disk_s=round(statistics.median(cold), 3),
                   from_disk_read_s=round(cold_read, 3),
                   from_disk_ratio=round((1.3 * cold_read + 1) / statistics.median(cold), 3),
                   gb=round(made["bytes"] / 1e9, 3), gb_on_disk=round(on_disk / 1e9, 3),
                   save_s=made["save_s"], others_share=round(work.share(), 3))
        return out
