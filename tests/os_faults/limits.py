"""Limits of the host: few files, processes, bytes of a file or of memory, and full disks."""

import dataclasses
import os
import resource
import subprocess

import workloads

_ANY_USER = 65534  # limits of processes do not bind root


@dataclasses.dataclass(frozen=True)
class Limit:
    name: str
    workload: str
    apply: object = None  # called in the child before it executes the program
    disk: str = ""  # name of a directory of the job that is a small file system
    bytes: int = 0  # size of this file system
    fill: int = 0  # bytes of it that are in use
    user: bool = False  # runs as another user than root
    causes: tuple = ()  # a failed job names one of these


def _set(which, value):
    return lambda: resource.setrlimit(which, (value, value))


def _as_user(which, value):
    def apply():
        resource.setrlimit(which, (value, value))
        os.setgid(_ANY_USER)
        os.setuid(_ANY_USER)
    return apply


def variants():
    found = []
    for job in ("local", "pserver", "collective"):
        for files in (5, 8, 12, 16, 20, 24, 32, 40, 48, 64):
            found.append(Limit(f"ulimit -n {files}", job, _set(resource.RLIMIT_NOFILE, files),
                               causes=("TD2114", "Too many open files", "TD2116")))
        for size in (100, 1000, 4096, 20000, 100000, 1 << 20, 20 << 20):
            found.append(Limit(f"ulimit -f {size} bytes", job, _set(resource.RLIMIT_FSIZE, size),
                               causes=("TD2115", "File too large", "TD2107")))
        # Below that libxsmm crashes, see rounds.KNOWN.
        for size in (200, 400, 800, 1600):
            found.append(Limit(f"ulimit -v {size} MiB", job,
                               _set(resource.RLIMIT_AS, size << 20),
                               causes=("TD2116", "Cannot allocate memory", "ulimit -v",
                                       "failed to map segment", "cannot allocate memory")))
        for count in (1, 2, 3, 5, 8, 12, 20, 30, 45):
            found.append(Limit(f"ulimit -u {count}", job, _as_user(resource.RLIMIT_NPROC, count),
                               user=True, causes=("TD2116", "Resource temporarily unavailable")))
        for free in (0, 1000, 4096, 16384):
            found.append(Limit(f"log directory with {free} bytes", job, disk="log",
                               bytes=65536, fill=65536 - free,
                               causes=("TD2107", "TD2117", "No space left on device")))
    for free in (4096, 65536):
        found.append(Limit(f"checkpoint directory with {free} bytes", "local", disk="ck",
                           bytes=free, causes=("TD2107", "No space left on device")))
    for free in (1 << 20, 8 << 20, 40 << 20, 66 << 20, 80 << 20):
        found.append(Limit(f"data directory with {free} bytes", "pserver", disk="data", bytes=free,
                           causes=("TD2107", "No space left on device")))
    return found


class SmallDisk:
    """A file system of a given size, while the block runs. Needs root."""

    def __init__(self, folder, limit):
        self._folder, self._limit = folder, limit

    def __enter__(self):
        if not self._limit.disk:
            return
        path = self._folder.file(self._limit.disk)
        os.makedirs(path, mode=0o700, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self._limit.bytes},mode=0700",
                        "tmpfs", path], check=True)
        if self._limit.fill:
            with open(os.path.join(path, "fill"), "wb") as file:
                file.write(b"\0" * self._limit.fill)

    def __exit__(self, *_):
        if self._limit.disk:
            subprocess.run(["umount", "-l", self._folder.file(self._limit.disk)], check=False)


def can_mount(parent):
    path = os.path.join(parent, "mount")
    os.makedirs(path)
    done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=False,
                          capture_output=True).returncode == 0
    if done:
        subprocess.run(["umount", path], check=True)
    return done


def hand_over(folder):
    """Makes a directory the property of the user without rights."""
    for place, folders, files in os.walk(folder.path):
        for name in folders + files:
            os.chown(os.path.join(place, name), _ANY_USER, _ANY_USER)
    os.chown(folder.path, _ANY_USER, _ANY_USER)


def workload_of(limit):
    return workloads.BY_NAME[limit.workload]
