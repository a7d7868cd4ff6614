"""What a job costs while it waits, and how soon it makes its first step."""

import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import machine
from figures_jobs import EXAMPLES, job_args
from runner import Failed, Runner, compare

FIRST_STEP = re.compile(r"^step=1 ")
START_SECONDS_MAX = 60
SETTLE_SECONDS = 2  # a trainer that waits polls less and less
IDLE_SECONDS_MIN = 10
IDLE_PERCENT_MAX = 0.2


def cpu_seconds(pid):
    """Processor time of a process: the sum over its threads, which the kernel counts in ns."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def children(pid):
    """The processes that `pid` started: {pid: its program}."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found[child] = os.path.basename(os.readlink(f"/proc/{child}/exe"))
    return found


class StartedJob:
    """LeNet with two pservers and two trainers, until the first step is done."""

    def __init__(self, bin_dir, folder, steps):
        command = [os.path.join(bin_dir, "tandemrun"), "--servers=2", "--workers=2",
                   "--pserver_data_dir=" + os.path.join(folder, "data"), "--durability=logged",
                   f"--log_dir={folder}/log", os.path.join(EXAMPLES, "lenet.pbtxt"), "--",
                   "--log_every_steps=1", *job_args(steps)]
        start = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        watch = threading.Timer(START_SECONDS_MAX, self.process.kill)
        watch.start()
        lines = []
        try:
            for line in self.process.stdout:
                lines.append(line)
                if FIRST_STEP.match(line):
                    self.seconds = time.monotonic() - start
                    return
        finally:
            watch.cancel()
        self.end()
        raise Failed(f"{' '.join(command)} made no step:\n{''.join(lines[-20:])}")

    def end(self):
        self.process.kill()
        self.process.communicate()


class RestFigures(Runner):
    def job_start(self):
        """From the start of tandemrun to the end of the first step."""
        work, seconds = machine.OtherWork(), []
        for _ in self.rounds("job_start"):
            with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
                job = StartedJob(self.bin_dir, folder, 1)
                try:
                    job.process.communicate(timeout=START_SECONDS_MAX)
                finally:
                    job.end()
                seconds.append(job.seconds)
        out = compare(seconds, [0.5], 0, lower_is_better=True)
        out.update(peer_name="the goal itself: 0.5 s", limit_name="none",
                   others_share=round(work.share(), 3))
        return out

    def idle_cpu(self):
        """One of two trainers is stopped, so everything else waits for it."""
        shares, worst = {}, []
        for _ in self.rounds("idle_cpu"):
            with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
                job = StartedJob(self.bin_dir, folder, 1_000_000)
                try:
                    waiting = {job.process.pid: "tandemrun", **children(job.process.pid)}
                    stopped = max(pid for pid, name in waiting.items() if name == "tandem-trainer")
                    os.kill(stopped, signal.SIGSTOP)
                    del waiting[stopped]
                    time.sleep(SETTLE_SECONDS)
                    before = {pid: cpu_seconds(pid) for pid in waiting}
                    start = time.monotonic()
                    time.sleep(max(IDLE_SECONDS_MIN, self.args.seconds))
                    passed = time.monotonic() - start
                    round_shares = {}
                    for pid, name in waiting.items():
                        share = 100 * (cpu_seconds(pid) - before[pid]) / passed
                        round_shares[name] = max(share, round_shares.get(name, 0))
                    os.kill(stopped, signal.SIGCONT)
                    job.process.terminate()
                    job.process.communicate(timeout=START_SECONDS_MAX)
                finally:
                    job.end()
            worst.append(max(round_shares.values()))
            for name, share in round_shares.items():
                shares.setdefault(name, []).append(share)
        out = compare(worst, [IDLE_PERCENT_MAX], 0, lower_is_better=True)
        # Other work changes no processor time of a process that waits.
        out.update(peer_name=f"the goal itself: {IDLE_PERCENT_MAX} % of a core", limit_name="none",
                   percent={name: round(statistics.median(s), 3) for name, s in shares.items()})
        return out
