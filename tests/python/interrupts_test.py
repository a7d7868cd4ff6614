"""Ctrl-C ends each call that waits for servers or for other ranks. Python continues to work."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import script
from ports import free_ports

script.need_modules("grpc", "numpy", "torch", package="python3-grpcio, python3-torch")
# pylint: disable=wrong-import-position
import tandem_case as case
from pserver_played import PlayedServer
from pserver_process import Servers
from tandem_pserver.messages import METHODS

LIMIT = 120.0  # seconds that a call waits without Ctrl-C
SOON = 20.0    # seconds after Ctrl-C that a call may take on a busy machine

# By client and interrupted call: the error of a later call.
LATER = {
    ("tandem.ps", "configure"): r"its call of configure did not complete; make another client$",
    ("tandem.torch", "configure"): r"Ctrl-C ended its call configure \[TD1219\]; hint: make another",
    ("tandem.torch", "init"): r"Ctrl-C ended its call init_or_fetch \[TD1219\]; hint: make another",
}

# Makes the calls of a trainer up to the call `last`, before which it waits for a line. Prints the
# exception that ends this call, and a line after the client is destroyed.
CLIENT = f"""
import sys
import numpy

kind, address, last, trainer, trainers = sys.argv[1:4] + [int(n) for n in sys.argv[4:]]
params = {{"w": numpy.zeros((2, 3), numpy.float32)}}
shapes = {{"w": (2, 3)}}
gradients = {{"w": numpy.ones((2, 3), numpy.float32)}}
rows = {{"t": (numpy.array([7]), numpy.ones((1, 2), numpy.float32))}}
if kind == "tandem.ps":
    import tandem.ps
    calls = {{
        "connect": lambda _: tandem.ps.Client([address], trainer=trainer, trainers=trainers,
                                              start_timeout={LIMIT}, step_timeout={LIMIT}),
        "configure": lambda c: c.configure(shapes, tables={{"t": tandem.ps.Table(100, 2)}}),
        "init": lambda c: c.init_or_fetch(params),
        "push": lambda c: c.push(0, 0.1, gradients, rows),
        "push_pull": lambda c: c.push_pull(0, 0.1, gradients, params, rows),
        "pull_rows": lambda c: c.pull_rows("t", [1]),
        "pull_table": lambda c: c.pull_table("t"),
        "barrier": lambda c: c.barrier("b"),
        "save": lambda c: c.save(),
        "restore": lambda c: c.restore(),
        "status": lambda c: c.status(),
        "complete": lambda c: c.complete(),
    }}
else:
    from tandem import _core
    calls = {{
        "connect": lambda _: _core.PsClient(
            servers=[address], job="job", trainer=trainer, trainers=trainers, secret="", tls=None,
            insecure_allow_network=False, start_timeout={LIMIT}, step_timeout={LIMIT},
            row_cache_bytes=0, row_cache_versions=0),
        "configure": lambda c: c.configure(
            shapes, "sgd", {{}}, "sync", [("t", 100, 2, "constant", 0.0, 0.0, 1, "")]),
        "init": lambda c: c.init_or_fetch(params),
        "pull_table": lambda c: c.pull_table("t"),
        "save": lambda c: c.save(),
        "complete": lambda c: c.complete(),
    }}

client = None
try:
    for name in (*list(calls)[:3], last):
        if name == last:
            print(name, flush=True)
            sys.stdin.readline()
        result = calls[name](client)
        client = client or result
        if name == last:
            print("no exception", flush=True)
            break
except BaseException as error:
    print(type(error).__name__, flush=True)
later = {{"configure": "init", "init": "pull_table" if kind == "tandem.torch" else None}}.get(last)
if later is not None:
    try:
        calls[later](client)
    except Exception as error:
        print(error, flush=True)
client = result = None
print("destroyed", flush=True)
"""

# Two ranks. Rank 1 makes no collective; rank 0 prints the exception that ends its call `name`.
RANK = f"""
import datetime, os, sys, time
import torch
import torch.distributed as dist
import tandem.torch
from tandem import _core

def join():
    dist.init_process_group("tandem", timeout=datetime.timedelta(seconds={LIMIT}))

def connect():  # to a rank that does not come
    return _core.Communicator(rank=0, size=2, secret="s" * 32, listen_fd=-1, timeout={LIMIT},
                              rendezvous="127.0.0.1:" + os.environ["MASTER_PORT"], tree_order=False)

def wait():
    work = dist.all_reduce(torch.ones(10), async_op=True)
    del work  # the group has it
    dist.barrier()

calls = {{"connect": connect, "all_reduce": lambda: dist.all_reduce(torch.ones(10)), "wait": wait,
         "recv": lambda: dist.recv(torch.ones(10), 1),
         "monitored": lambda: dist.group.WORLD.monitored_barrier(datetime.timedelta(seconds={LIMIT}))}}
name = sys.argv[1]
try:
    if name != "connect":
        join()
    print("begin", flush=True)
    if os.environ["RANK"] == "1":
        sys.stdin.readline()
    else:
        calls[name]()
        print("no exception", flush=True)
except BaseException as error:
    print(type(error).__name__, flush=True)
if name != "connect":
    dist.destroy_process_group()
print("destroyed", flush=True)
"""


def threads_of(pid):
    """Returns the state and the processor time of each thread of a process, by thread id."""
    threads = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat", encoding="latin-1") as file:
            fields = file.read().rpartition(")")[2].split()
        threads[int(tid)] = (fields[0], fields[11], fields[12])
    return threads


def await_true(test, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        test.assertLess(time.monotonic(), end)
        time.sleep(0.05)


def stop(test, pid):
    """Stops a process. Returns when all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    await_true(test, lambda: all(state == "T" for state, *_ in threads_of(pid).values()))


def await_idle(test, pid):
    """Waits until the main thread of a process has slept during ten looks without a run between."""
    seen = []

    def idle():
        seen.append(threads_of(pid)[pid])
        return seen[-1][0] == "S" and len(seen) >= 10 and len(set(seen[-10:])) == 1
    await_true(test, idle)


class Program:
    """A program that a test interrupts."""

    def __init__(self, test, text, *args, **environment):
        self.test = test
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-c", text, *map(str, args)], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": case.PACKAGES, **environment})
        test.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.communicate()

    def expect(self, line):
        self.test.assertEqual(self.process.stdout.readline(), line + "\n")

    def enter(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def interrupt(self, later=None):
        """Sends SIGINT to a call that waits. The call must raise KeyboardInterrupt and end soon.
        later: text of the error of a later call, which the program makes then."""
        await_idle(self.test, self.process.pid)
        begin = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.expect("KeyboardInterrupt")
        raised = time.monotonic() - begin
        if later is not None:
            self.test.assertRegex(self.process.stdout.readline(), later)
        self.expect("destroyed")
        self.test.assertEqual(self.process.wait(SOON), 0)
        took = time.monotonic() - begin
        print(f"{self.test.id()}: exception after {raised:.2f} s, end after {took:.2f} s")
        self.test.assertLess(took, SOON)


class Clients(unittest.TestCase):
    """Clients of parameter servers: of tandem.ps, and of tandem.torch."""

    def ends(self, kind, last, stopped=True, trainer=0, trainers=1):
        """A call ends at Ctrl-C. stopped: its server does not reply."""
        with self.subTest(f"{kind}: {last}"), Servers(script.BUILD, 1, trainers=trainers) as servers:
            address = servers.addresses[0] if last != "connect" else "127.0.0.1:1"
            program = Program(self, CLIENT, kind, address, last, trainer, trainers)
            program.expect(last)
            if stopped:
                stop(self, servers.running[0].pid)
            program.enter()
            program.interrupt(LATER.get((kind, last)))

    def test_connections(self):
        for kind in ("tandem.ps", "tandem.torch"):
            self.ends(kind, "connect", stopped=False)

    def test_calls_to_a_server_that_does_not_reply(self):
        for last in ("configure", "init", "pull_table", "save", "complete"):
            for kind in ("tandem.ps", "tandem.torch"):
                self.ends(kind, last)
        for last in ("push", "push_pull", "pull_rows", "restore", "status"):
            self.ends("tandem.ps", last)

    def test_calls_that_wait_for_other_trainers(self):
        for kind in ("tandem.ps", "tandem.torch"):
            self.ends(kind, "init", stopped=False, trainer=1, trainers=2)
        for last in ("push_pull", "barrier"):
            self.ends("tandem.ps", last, stopped=False, trainers=2)

    def test_a_server_that_offers_no_shared_memory_in_time(self):
        class Slow(PlayedServer):
            """Replies to Configure and does not reply to OpenLane."""

            ended = threading.Event()

            def GetStatus(self, *_):
                return METHODS["GetStatus"][1]()

            def Configure(self, *_):
                return METHODS["Configure"][1]()

            def OpenLane(self, *_):
                self.ended.wait(LIMIT)
                return METHODS["OpenLane"][1]()

        slow = Slow(0)
        self.addCleanup(slow.stop)
        self.addCleanup(slow.ended.set)  # runs before `stop`
        program = Program(self, CLIENT, "tandem.torch", slow.address, "configure", 0, 1)
        program.expect("configure")
        program.enter()
        program.interrupt(LATER["tandem.torch", "configure"])


class Ranks(unittest.TestCase):
    """Process groups of torch.distributed with the backend `tandem`."""

    def ends(self, name, size=2):
        with self.subTest(name):
            port = str(free_ports())
            ranks = [Program(self, RANK, name, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                             MASTER_PORT=port, OMP_NUM_THREADS="1") for rank in range(size)]
            for rank in ranks:
                rank.expect("begin")
            ranks[0].interrupt()

    def test_waits_for_another_rank(self):
        self.ends("connect", size=1)
        for name in ("all_reduce", "wait", "recv", "monitored"):
            self.ends(name)


if __name__ == "__main__":
    script.main()
