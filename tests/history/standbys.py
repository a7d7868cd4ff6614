"""A job of tandemrun with standbys, of which members are killed and lose their directories."""

import json
import os
import random
import signal
import subprocess
import threading
import time

from tandem_pserver import PserverError
from tandem_pserver.channel import Server
from tandem_pserver.messages import METHODS

from history import Recorder
from servers import Died

START_SECONDS = 60
WHOLE_SECONDS = 90
FETCHED = "fetched the checkpoint"  # in the log of a standby that begins without a directory


class StandbyJob:
    """tandemrun with pservers and standbys. Its trainers only wait, since the clients push."""

    def __init__(self, folder, bin_folder, pserver, plan):
        self.folder, self.plan = folder, plan
        self.log, self.state = os.path.join(folder, "log"), os.path.join(folder, "state")
        self.lost = 0
        job = os.path.join(folder, "job.pbtxt")
        with open(job, "w", encoding="utf-8") as file:
            file.write(f'name: "{plan["job"]}"\nmodel {{ zoo: "lenet" }}\n'
                       'data { format: "idx" dir: "/usr/share/datasets/fashion-mnist" }\n')
        waits = os.path.join(folder, "waits.sh")
        with open(os.open(waits, os.O_CREAT | os.O_WRONLY, 0o700), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 100000\n")
        command = [os.path.join(bin_folder, "tandemrun"), f"--servers={plan['real_servers']}",
                   f"--standbys={plan['standbys']}", f"--workers={plan['trainers']}",
                   f"--pserver_data_dir={self.state}", f"--log_dir={self.log}",
                   "--max_restarts=100000", f"--trainer_bin={waits}",
                   f"--pserver_bin={pserver}", job]
        self.output = os.path.join(folder, "tandemrun.log")
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        self.addresses = self._wait_for(self._find_addresses, START_SECONDS, "no addresses")
        self.secret = self._read("job.secret").strip()

    def _read(self, name):
        try:
            with open(os.path.join(self.log, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _find_addresses(self):
        try:
            found = json.loads(self._read("job.json")).get("pservers", "")
        except ValueError:
            return None
        return found.split(",") if found and self._read("job.secret").strip() else None

    def _wait_for(self, find, seconds, what):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = find()
            if found is not None:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise Died(f"{what}; tandemrun: {self.process.poll()}\n{self.tail()}")

    def tail(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def status(self, server):
        """The StatusReply of a server; None: it does not reply."""
        try:
            return Server(server, self.addresses[server], self.plan["job"], self.secret, None,
                          0).call("GetStatus", METHODS["GetStatus"][0](), 2.0)
        except PserverError:
            return None

    def pid(self, server, member):
        """The newest process of a member."""
        found = None
        for line in self._read("events.jsonl").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == "started" \
                    and event.get("process") == f"pserver {server} (member {member})":
                found = event.get("pid")
        return found

    def fetches(self, server):
        return sum(self._read(f"serverlog.{name(server, m)}").count(FETCHED)
                   for m in range(self.plan["standbys"] + 1))

    def wait_until_whole(self, server, fetches=0):
        """Returns the member that is the primary, when all standbys follow it."""
        def whole():
            status = self.status(server)
            if status is None or not status.initialised or self.fetches(server) < fetches:
                return None
            follow = sum(s.current and s.lag_entries < 100 and s.silent_seconds < 1
                         for s in status.standby)
            return status.member if follow == self.plan["standbys"] else None
        return self._wait_for(whole, WHOLE_SECONDS, f"pserver {server} is not whole again")

    def lose(self, server, member):
        """Moves the directory of a member away."""
        self.lost += 1
        os.rename(os.path.join(self.state, f"pserver-{name(server, member)}"),
                  os.path.join(self.folder, f"lost-{self.lost}"))

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def name(server, member):
    return str(server) if member == 0 else f"{server}.member-{member}"


class StandbyFaults(threading.Thread):
    """Kills and stops primaries and standbys; most lose their directories too."""

    def __init__(self, world, job):
        super().__init__(name="faults", daemon=True)
        self.world, self.job = world, job
        self.rng = random.Random(f"{world.plan['seed']} faults")
        self.over, self.failure, self.fetched = threading.Event(), None, {}

    def run(self):
        try:
            while not self.over.wait(self.rng.uniform(0.05, 0.6)):
                self.one(self.rng.randrange(len(self.job.addresses)))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error
            raise

    def one(self, server):
        primary = self.job.wait_until_whole(server, self.fetched.get(server, 0))
        others = [m for m in range(self.world.plan["standbys"] + 1) if m != primary]
        member = primary if self.rng.random() < 0.7 else self.rng.choice(others)
        lose = self.rng.random() < 0.7
        number = signal.SIGKILL if self.rng.random() < 0.85 else signal.SIGSTOP
        pid, before = self.job.pid(server, member), self.job.fetches(server)
        event = self.world.recorder.begin("faults", "lose" if lose else "kill_member", server,
                                          member=member, primary=member == primary,
                                          signal=int(number))
        if member != primary or self.rng.random() < 0.5:
            others = []
        if others:  # acknowledgements now need members that do not answer
            self.signal_all(server, others, signal.SIGSTOP)
            self.over.wait(0.3)
        if lose:
            self.job.lose(server, member)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # a member may end because of its lost directory
        if others:
            self.signal_all(server, others, signal.SIGCONT)
        self.fetched[server] = before + lose
        # The next loss waits until tandemrun has started the member again.
        self.job._wait_for(  # pylint: disable=protected-access
            lambda: True if self.job.pid(server, member) != pid else None, WHOLE_SECONDS,
            f"pserver {server} (member {member}) is not started again")
        Recorder.end(event, "ok")

    def signal_all(self, server, members, number):
        for member in members:
            try:
                os.kill(self.job.pid(server, member), number)
            except ProcessLookupError:
                pass

    def end(self):
        self.over.set()
        self.join(2 * WHOLE_SECONDS)
