"""Pservers as processes: started, killed, stopped, continued and restarted by the test."""

import os
import re
import shutil
import signal
import subprocess
import time

from proxy import Proxy

DISK_MB = 160     # of the disk of a server in runs with the fault `full`
START_SECONDS = 60


class Died(Exception):
    """A server ended although no fault ended it."""


class Server:
    """One pserver with its directory, and a proxy in front of it."""

    def __init__(self, index, program, folder, plan):
        self.index, self._program, self._plan = index, program, plan
        self.data = os.path.join(folder, f"data-{index}")
        self._log = os.path.join(folder, f"server-{index}.log")
        self.proxy, self.address = Proxy(), "127.0.0.1:0"
        self.process, self.starts, self.disk = None, 0, False
        self.mutant = "broken-pserver-" in program  # tests/e2e/broken_pserver.cc
        os.mkdir(self.data)
        if "full" in plan["faults"]:
            self._mount()

    def _mount(self):
        """A small disk, where the user may mount one."""
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=700", "none",
                               self.data], check=False, capture_output=True)
        self.disk = done.returncode == 0

    def start(self):
        at = os.path.getsize(self._log) if os.path.exists(self._log) else 0
        command = [self._program, f"--listen={self.address}", f"--index={self.index}",
                   f"--job={self._plan['job']}", f"--trainers={self._plan['trainers']}",
                   f"--durability={self._plan['durability']}", f"--data_dir={self.data}",
                   f"--rocksdb_path={self.data}/rows", *self._plan["flags"]]
        if self.mutant:  # has only these arguments
            command = [self._program, self.address, str(self.index), self.data]
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.starts += 1
        self._wait_until_it_listens(at)
        host, port = self.address.rsplit(":", 1)
        self.proxy.target = (host, int(port))

    def _wait_until_it_listens(self, at):
        end, text = time.monotonic() + START_SECONDS, ""
        while time.monotonic() < end:
            with open(self._log, encoding="utf-8", errors="replace") as log:
                log.seek(at)
                text = log.read()
            found = re.search(r"listening on (\S+:\d+)", text)
            if found:
                self.address = found.group(1)
                return
            if self.process.poll() is not None:
                raise Died(f"server {self.index} ended with {self.process.returncode} at its start:"
                           f"\n{text[-2000:]}")
            time.sleep(0.01)
        raise Died(f"server {self.index} does not listen after {START_SECONDS} s:\n{text[-2000:]}")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.alive():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self):
        """Ends the server as a supervisor does. Returns its exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def fill(self):
        """Writes until the disk has no room."""
        with open(os.path.join(self.data, "ballast"), "wb", buffering=0) as file:
            try:
                while file.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass

    def free(self):
        os.remove(os.path.join(self.data, "ballast"))

    def tail(self, most=4000):
        with open(self._log, encoding="utf-8", errors="replace") as log:
            return log.read()[-most:]

    def close(self):
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.kill()
        self.proxy.close()
        if self.disk:
            subprocess.run(["umount", self.data], check=False)
        shutil.rmtree(self.data, ignore_errors=True)
