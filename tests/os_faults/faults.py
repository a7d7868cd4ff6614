"""The functions of the operating system that fail, and how. Reads what the library of shim.cc wrote
about the calls of a job."""

import bisect
import collections
import dataclasses
import errno
import os
import re
import subprocess

SHORT = 0  # TANDEM_FAULT_ERRNO of a call that transfers half of its bytes
FOR_EVER = 0  # TANDEM_FAULT_TIMES of a call that fails from then on

# Errors that each function may have. A pair is (errno, number of calls that fail).
ERRORS = {
    "open": [(errno.EMFILE, 1), (errno.ENOSPC, 1), (errno.EIO, 1)],
    "opendir": [(errno.EMFILE, 1), (errno.EIO, 1)],
    "readdir": [(errno.EIO, 1)],
    "mkdir": [(errno.ENOSPC, 1), (errno.EIO, 1)],
    "rename": [(errno.ENOSPC, 1), (errno.EIO, 1)],
    "link": [(errno.EIO, 1)],
    "unlink": [(errno.EIO, 1)],
    "ftruncate": [(errno.EIO, 1), (errno.ENOSPC, 1)],
    "fallocate": [(errno.ENOSPC, 1), (errno.EIO, 1)],
    "write": [(errno.ENOSPC, 1), (errno.EIO, 1), (SHORT, 1), (errno.ENOSPC, FOR_EVER)],
    "read": [(errno.EIO, 1), (SHORT, 1)],
    "fsync": [(errno.EIO, 1), (errno.ENOSPC, 1)],
    "close": [(errno.EIO, 1)],
    "mmap": [(errno.ENOMEM, 1)],
    "memfd_create": [(errno.EMFILE, 1), (errno.ENOMEM, 1)],
    "socket": [(errno.EMFILE, 1), (errno.ENOBUFS, 1)],
    "socketpair": [(errno.EMFILE, 1)],
    "bind": [(errno.EADDRINUSE, 1)],
    "listen": [(errno.EADDRINUSE, 1)],
    "accept": [(errno.EMFILE, 1), (errno.ECONNABORTED, 1)],
    "connect": [(errno.EADDRNOTAVAIL, 1)],
    "send": [(errno.ECONNRESET, 1), (errno.ENOBUFS, 1)],
    "recv": [(errno.ECONNRESET, 1)],
    "epoll_create": [(errno.EMFILE, 1)],
    "epoll_ctl": [(errno.ENOSPC, 1)],
    "eventfd": [(errno.EMFILE, 1)],
    "timerfd": [(errno.EMFILE, 1)],
    "signalfd": [(errno.EMFILE, 1)],
    "pipe": [(errno.EMFILE, 1)],
    "dup": [(errno.EMFILE, 1)],
    "fork": [(errno.EAGAIN, 1), (errno.ENOMEM, 1)],
    "exec": [(errno.ENOMEM, 1), (errno.EIO, 1)],
    "pthread_create": [(errno.EAGAIN, 1)],
    "malloc": [(errno.ENOMEM, 1)],
}
# Functions with a path. A message about their failure names the file.
OF_FILES = {"open", "opendir", "readdir", "mkdir", "rename", "link", "unlink", "ftruncate",
            "fallocate", "write", "read", "fsync", "close"}

_LINE = re.compile(r"(\S+) (\S+) (\S+) (\d+) (.*?)((?: [0-9a-f]+)*)$")


@dataclasses.dataclass(frozen=True)
class Place:
    """A call that a job made."""
    program: str
    index: str
    call: str
    number: int
    path: str  # "-": not a file
    addresses: tuple  # of the innermost frames of the program


@dataclasses.dataclass(frozen=True)
class Fault:
    program: str
    index: str
    call: str
    at: int
    error: int
    times: int = 1
    drop: bool = False  # a failing fsync loses the bytes that were written after the last one

    def error_name(self):
        name = "short" if self.error == SHORT else errno.errorcode[self.error]
        name += " and lost bytes" if self.drop else ""
        return name if self.times == 1 else name + " from then on"

    def text(self):
        """The argument of --fault that repeats this fault."""
        error = "short" if self.error == SHORT else errno.errorcode[self.error]
        return (f"{self.program}:{self.index}:{self.call}:{self.at}:{error}:{self.times}"
                f"{':drop' if self.drop else ''}")

    @staticmethod
    def parse(text):
        program, index, call, at, error, times, *drop = text.split(":")
        number = SHORT if error == "short" else getattr(errno, error)
        return Fault(program, index, call, int(at), number, int(times), drop == ["drop"])

    def environment(self, mark):
        return {"TANDEM_FAULT_PROCESS": self.program, "TANDEM_FAULT_INDEX":
                "" if self.program in ("tandemrun", "tandem") else self.index,
                "TANDEM_FAULT_CALL": self.call, "TANDEM_FAULT_AT": str(self.at),
                "TANDEM_FAULT_ERRNO": str(self.error), "TANDEM_FAULT_TIMES": str(self.times),
                "TANDEM_FAULT_DROP": "1" if self.drop else "0",
                "TANDEM_FAULT_MARK": mark}


def read_places(path):
    """The lines that the library wrote."""
    places = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return places
    for line in lines:
        match = _LINE.match(line)
        if match:
            program, index, call, number, name, addresses = match.groups()
            places.append(Place(program, index, call, int(number), name,
                                tuple(addresses.split())))
    return places


def candidates(places, small):
    """Faults worth a round: the first `small` calls of each function of each process, and the first
    and last call from each place in the program."""
    found = {}
    by_site = collections.defaultdict(list)
    for place in places:
        key = (place.program, place.index, place.call)
        if place.call not in ERRORS:
            continue
        if place.number <= small:
            found[key + (place.number,)] = place
        by_site[key + place.addresses[:3]].append(place)
    for calls in by_site.values():
        for place in (calls[0], calls[-1]):
            found[(place.program, place.index, place.call, place.number)] = place
    faults = []
    for place in found.values():
        for error, times in ERRORS[place.call]:
            # Bytes of the update log may be lost with the power (guarantees.md, Exactly once).
            drop = (place.call, error) == ("fsync", errno.EIO) and not place.path.endswith(".log")
            faults.append(Fault(place.program, place.index, place.call, place.number, error, times,
                                drop))
    return faults


class Symbols:
    """Names of the functions of programs."""

    def __init__(self, bin_folder):
        self._bin, self._tables = bin_folder, {}

    def name(self, program, address):
        if program not in self._tables:
            self._tables[program] = self._read(program)
        starts, names = self._tables[program]
        at = bisect.bisect_right(starts, int(address, 16)) - 1
        return names[at] if at >= 0 else "?"

    def site(self, place):
        """The innermost two functions of a place, outermost first."""
        names = []
        for address in place.addresses:
            name = self.name(place.program, address)
            if not names or names[-1] != name:
                names.append(name)
        return " > ".join(reversed(names[:2])) or "a library"

    def _read(self, program):
        path = os.path.join(self._bin, program)
        lines = subprocess.run(["nm", "-nC", "--defined-only", path], capture_output=True,
                               text=True, check=False).stdout.splitlines()
        starts, names = [], []
        for line in lines:
            words = line.split(" ", 2)
            if len(words) == 3 and words[1] in "tTwWiuV":
                starts.append(int(words[0], 16))
                names.append(_shortened(words[2]))
        return starts, names


def _shortened(name):
    """A function's name without namespaces, arguments and arguments of templates."""
    name = name.replace("(anonymous namespace)::", "").replace("tandem::", "")
    before = None
    while before != name:
        before, name = name, re.sub(r"<[^<>]*>", "", name)
        name = re.sub(r"\([^()]*\)", "", name)
    return re.sub(r"\[abi:\w+\]| const|\[clone.*", "", name).split(" ")[-1].strip() or "lambda"
