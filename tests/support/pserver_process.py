"""Servers of a job as programs, for tests."""

import os
import re
import subprocess
import tempfile
import time


class Servers:
    """`count` tandem-pservers of build/bin on free ports of 127.0.0.1, until the block ends."""

    def __init__(self, build, count, *flags, trainers=1, job="job", secret=""):
        self.program = os.path.join(build, "bin", "tandem-pserver")
        self.count, self.flags = count, [*flags, f"--trainers={trainers}", f"--job={job}"]
        self.secret = secret

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-python-")
        self.running = [None] * self.count
        self.addresses = ["127.0.0.1:0"] * self.count
        self.redis_addresses = [None] * self.count  # with --resp_listen
        for i in range(self.count):
            self.start(i)
        return self

    def start(self, i):
        """Starts server i, at the address that it had before if it had one."""
        environment = dict(os.environ)
        if self.secret:
            path = os.path.join(self.folder.name, "secret")
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write(self.secret)
            environment["TANDEM_SECRET_FILE"] = path
        log = os.path.join(self.folder.name, f"{i}.log")
        command = [self.program, f"--listen={self.addresses[i]}", f"--index={i}", *self.flags]
        command += [f"--data_dir={os.path.join(self.folder.name, str(i))}"]
        with open(log, "w") as file:
            self.running[i] = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        for _ in range(3000):
            with open(log) as file:
                text = file.read()
            redis = re.search(r"answers Redis clients on (\S+)", text)
            if redis:
                self.redis_addresses[i] = redis.group(1)
            found = re.search(r"listening on (\S+)", text)
            if found:
                self.addresses[i] = found.group(1)
                return
            if self.running[i].poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{' '.join(command)} did not start:\n{text}")

    def kill(self, i):
        self.running[i].kill()
        self.running[i].wait()

    def terminate(self, i):
        """Ends server i as a supervisor does, by SIGTERM."""
        self.running[i].terminate()
        self.running[i].wait()

    def __exit__(self, *_):
        for process in self.running:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.folder.cleanup()


class Replicas(Servers):
    """A replica of each server of `primaries`, which need --durability=logged."""

    def __init__(self, build, primaries, *flags, **options):
        super().__init__(build, len(primaries.addresses), "--durability=logged", *flags, **options)
        self.primaries, self.common = primaries.addresses, self.flags

    def start(self, i):
        self.flags = [*self.common, f"--replica_of={self.primaries[i]}"]
        super().start(i)
