#!/usr/bin/env python3
"""Starts one job with many tandemruns on this machine, and measures the launchers.

usage: tests/long/launchers.py [--build=build] [--hosts=64] [--ranks=4] [--model] [--seconds=10]

Each tandemrun is a host of the job and starts --ranks processes: scripts that sleep, or with --model
trainers of a tiny model. The table has the time until all processes run (with --model until the first
step), the memory, connections and descriptors of a process, the traffic between the tandemruns, and
their processor time. The traffic is all bytes on the loopback interface of a separate network
namespace, which needs root. Without root the table has no traffic. Prints a table in Markdown."""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

PORT, STARTS_WITHIN_S, ENDS_WITHIN_S, LOOK_S = 4700, 150, 120, 0.02
CLONE_NEWNET = 0x40000000
SCRIPT = """#!/bin/sh
echo $$ > {dir}/draft.$RANK
mv {dir}/draft.$RANK {dir}/started.$RANK
exec sleep 100000
"""
JOB = """
name: "launchers"
model {{
  zoo: "softmax"
  arg {{ name: "image" value: "1,8,8" }}
}}
data {{
  format: "synthetic"
  synthetic {{ image: 1 image: 8 image: 8 classes: 10 samples: {samples} test_samples: 64 }}
}}
optimizer {{ type: "momentum" learning_rate: 0.01 }}
global_batch_size: {batch}
threads: 1
epochs: 1000000
eval_every_epochs: 0
log_every_steps: 1
start_timeout_ms: 300000
step_timeout_ms: 300000
"""


def enter_network():
    """Moves this process to a new network namespace. Returns whether this was possible."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        return False
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return True


def loopback_bytes():
    with open("/proc/net/dev", encoding="utf-8") as file:
        for line in file:
            name, _, counts = line.partition(":")
            if name.strip() == "lo":
                return int(counts.split()[0]), int(counts.split()[1])
    raise RuntimeError("no loopback interface")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kilobytes(pid):
    """Returns the resident memory of a process, and its share of that memory (PSS)."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("Rss", "Pss"):
                found[name] = int(value.split()[0])
    return found["Rss"], found["Pss"]


def established():
    """Returns the sockets of all TCP connections of this network namespace."""
    with open("/proc/net/tcp", encoding="utf-8") as file:
        fields = [line.split() for line in file.readlines()[1:]]
    return {line[9] for line in fields if line[3] == "01"}  # 01: established


def descriptors(pid):
    """Returns the files and sockets that a process has open."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:  # closed since
            pass
    return found


def children(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="utf-8") as file:
            found += [int(child) for child in file.read().split()]
    return found


class Launchers:
    """The tandemruns of one job."""

    def __init__(self, bin_dir, directory, hosts, ranks, model):
        self.directory, self.hosts, self.ranks, self.model = directory, hosts, ranks, model
        secret = os.path.join(directory, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write("the secret of a measurement\n")
        os.chmod(secret, 0o400)
        size = hosts * ranks
        job = os.path.join(directory, "job.pbtxt")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB.format(samples=4 * size, batch=2 * size))
        self.command = [
            os.path.join(bin_dir, "tandemrun"), f"--hosts={hosts}", f"--nproc={ranks}",
            "--mode=collective", f"--rendezvous=tcp://127.0.0.1:{PORT}",
            f"--secret_file={secret}", "--insecure_allow_network", "--grace_s=5",
            f"--log_dir={directory}/logs"]
        if not model:
            script = os.path.join(directory, "trainer")
            with open(script, "w", encoding="utf-8") as file:
                file.write(SCRIPT.format(dir=directory))
            os.chmod(script, 0o700)
            self.command.append(f"--trainer_bin={script}")
        else:  # the trainers of all hosts share this machine, and delay its tandemruns
            self.command.append("--host_timeout_s=60")
        self.command.append(job)
        self.processes = []

    def output(self, host):
        return os.path.join(self.directory, f"host-{host}.out")

    def text(self, host):
        with open(self.output(host), encoding="utf-8", errors="replace") as file:
            return file.read()

    def start(self):
        """Starts all tandemruns. Returns the seconds until all processes of the job run."""
        begin = time.monotonic()
        for host in range(self.hosts):
            with open(self.output(host), "w", encoding="utf-8") as out:
                self.processes.append(subprocess.Popen(
                    self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out))
        while not self.runs():
            self.check()
            if time.monotonic() - begin > STARTS_WITHIN_S:
                raise RuntimeError("the job did not start\n" + self.text(0))
            time.sleep(LOOK_S)
        return time.monotonic() - begin

    def check(self):
        ended = [host for host, process in enumerate(self.processes) if process.poll() is not None]
        if ended:
            raise RuntimeError(f"tandemruns {ended} have ended\n{self.text(ended[0])}")

    def runs(self):
        if self.model:
            return any("step=" in self.text(host) for host in range(self.hosts))
        started = [n for n in os.listdir(self.directory) if n.startswith("started.")]
        return len(started) == self.hosts * self.ranks

    def rank_pids(self):
        return [child for process in self.processes for child in children(process.pid)]

    def leader(self):
        """Returns the process id of the leading tandemrun, which has the most connections."""
        return max((p.pid for p in self.processes), key=lambda pid: len(descriptors(pid)))

    def stop(self):
        """Stops the job. Returns the seconds until all processes have ended."""
        ranks, begin = self.rank_pids(), time.monotonic()
        self.processes[-1].send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=ENDS_WITHIN_S)
        seconds = time.monotonic() - begin
        left = [pid for pid in ranks if os.path.exists(f"/proc/{pid}")]
        if left:
            raise RuntimeError(f"processes that are left: {left}")
        return seconds

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def measure(launchers, seconds, separate):
    """Returns the figures of one job."""
    figures = {"hosts": launchers.hosts, "ranks": launchers.hosts * launchers.ranks,
               "model": launchers.model,
               "start_s": launchers.start()}
    pids = [process.pid for process in launchers.processes]
    before, bytes_before, begin = sum(map(cpu_seconds, pids)), loopback_bytes(), time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - begin
    figures["launcher_cpu"] = (sum(map(cpu_seconds, pids)) - before) / passed
    if separate and not launchers.model:
        moved = [now - then for now, then in zip(loopback_bytes(), bytes_before)]
        figures["bytes_per_s"], figures["packets_per_s"] = (count / passed for count in moved)
    launchers.check()
    sockets, leader = established(), launchers.leader()
    other = next(pid for pid in pids if pid != leader)
    members = {"leading tandemrun": leader, "other tandemrun": other,
               "rank": launchers.rank_pids()[0]}
    for name, pid in members.items():
        rss, pss = kilobytes(pid)
        files = descriptors(pid)
        tcp = sum(file.removeprefix("socket:[").removesuffix("]") in sockets for file in files)
        figures[name] = {"rss_kb": rss, "pss_kb": pss, "connections": tcp,
                         "descriptors": len(files)}
    launchers.check()
    figures["stop_s"] = launchers.stop()
    return figures


def table(figures):
    started = "until the first step" if figures["model"] else "until all processes run"
    rows = [(started, f"{figures['start_s']:.2f} s"),
            ("until all have ended after SIGTERM to one tandemrun", f"{figures['stop_s']:.2f} s"),
            ("processor time of all tandemruns", f"{1000 * figures['launcher_cpu']:.0f} ms/s")]
    if "bytes_per_s" in figures:
        rows.append(("control traffic of all tandemruns",
                     f"{figures['bytes_per_s'] / 1024:.1f} KiB/s, "
                     f"{figures['packets_per_s']:.0f} packets/s"))
    for name in ("leading tandemrun", "other tandemrun", "rank"):
        one = figures[name]
        rows.append((name, f"{one['rss_kb'] / 1024:.1f} MiB resident, {one['pss_kb'] / 1024:.1f} MiB "
                     f"share, {one['connections']} connections, {one['descriptors']} descriptors"))
    head = f"| {figures['hosts']} tandemruns, {figures['ranks']} processes | |\n|---|---|\n"
    return head + "".join(f"| {name} | {value} |\n" for name, value in rows)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--json", help="file for the figures")
    given = parser.parse_args()
    separate = enter_network()
    bin_dir = os.environ.get("TANDEM_BIN_DIR", os.path.join(given.build, "bin"))
    with tempfile.TemporaryDirectory() as directory:
        launchers = Launchers(os.path.abspath(bin_dir), directory, given.hosts, given.ranks,
                              given.model)
        try:
            figures = measure(launchers, given.seconds, separate)
        finally:
            launchers.kill()
    print(table(figures), end="")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    sys.exit(main())
