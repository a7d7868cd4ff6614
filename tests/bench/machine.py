"""The machine of a figure: its CPU, the commit, and the work of other processes."""

import datetime
import os
import resource
import subprocess
import sys
import time

BUSY_SHARE_MAX = 0.05  # share of all cores that other processes use


# Flags of /proc/cpuinfo that decide the kind of a CPU, the widest vectors first.
VECTOR_FLAGS = (("amx_tile", "amx"), ("avx512f", "avx512"), ("avx2", "avx2"))
VENDORS = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}


def cpu_kind(cpuinfo=None):
    """Kind of a CPU by its vendor and widest vector instructions, such as amd-avx512. `cpuinfo`:
    text of /proc/cpuinfo; None: that of this machine."""
    if cpuinfo is None:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpuinfo = file.read()
    fields = {}
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    flags = fields.get("flags", "").split()
    vectors = next((name for flag, name in VECTOR_FLAGS if flag in flags), "generic")
    return f"{VENDORS.get(fields.get('vendor_id'), 'other')}-{vectors}"


def describe():
    model = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo", encoding="utf-8") as lines:
        kib = int(next(lines).split()[1])
    return f"{model}, {os.cpu_count()} cores, {kib / 2**20:.0f} GiB"


def today():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit(root):
    """Commit of the sources, with -dirty if tracked files have changes. Pages and recorded results
    of benchmarks do not count, because no figure depends on them."""
    def git(*args):
        done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True,
                              check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short=12", "HEAD")
    if not name:
        return "unknown"
    return name + ("-dirty" if git("status", "--porcelain", "--untracked-files=no", "--", ".",
                                ":(exclude)docs/project/benchmarks") else "")


class OtherWork:
    """CPU time of processes that are not ours, from construction on, as a share of all cores."""

    def __init__(self):
        self.start = time.monotonic()
        self.busy, self.own = self._busy(), self._own()

    @staticmethod
    def _busy():
        with open("/proc/stat", encoding="utf-8") as lines:
            ticks = [int(t) for t in next(lines).split()[1:9]]
        idle = ticks[3] + ticks[4]
        return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in used)

    def share(self):
        """Children count once they have ended, so ask between runs."""
        wall = max(time.monotonic() - self.start, 1e-3) * os.cpu_count()
        return max(0.0, (self._busy() - self.busy) - (self._own() - self.own)) / wall


def gate(wait_s):
    """Waits up to wait_s seconds for an idle machine; warns when it is busy. Share of others."""
    deadline = time.monotonic() + wait_s
    while True:
        work = OtherWork()
        time.sleep(1)
        share = work.share()
        if share <= BUSY_SHARE_MAX or time.monotonic() >= deadline:
            break
    if share > BUSY_SHARE_MAX:
        print(f"bench: warning: others use {share:.0%} of this machine (load average "
              f"{os.getloadavg()[0]:.2f} on {os.cpu_count()} cores): these figures are not to be "
              "trusted", file=sys.stderr)
    return share
