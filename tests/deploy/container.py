"""Runs a shell command as process 1 of a container:
  python3 container.py SPACE COMMAND
SPACE is the file of the network namespace. Mounts, processes, IPC and the host name are separate.
Ends with the exit code of the command, or 128 + signal."""

import ctypes
import os
import signal
import sys

CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID = 0x40000000, 0x20000, 0x20000000
CLONE_NEWIPC, CLONE_NEWUTS = 0x8000000, 0x4000000
PR_SET_PDEATHSIG = 1


def system(name, *args):
    """Calls a function of libc for which this Python has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        raise OSError(ctypes.get_errno(), name)


def enter(space):
    with open(space, "rb") as file:
        system("setns", file.fileno(), CLONE_NEWNET)


def main(space, command):
    system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    enter(space)
    system("unshare", CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
    first = os.fork()
    if first == 0:
        system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execv("/bin/sh", ["sh", "-c", command])
    status = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
