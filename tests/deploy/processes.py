"""Programs that run in the background of a test."""

import os
import signal
import subprocess
import time


def wait_until(done, seconds_max):
    """Whether done() became true in time."""
    end = time.monotonic() + seconds_max
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Background:
    """A program, with its children, until the block ends; its output in a file of `folder`."""

    def __init__(self, command, folder, log, environment=None):
        self.log = os.path.join(folder, log)
        with open(self.log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL,
                                            stdout=file, stderr=file, env=environment,
                                            start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """SIGTERM, 20 seconds, and SIGKILL for whoever of the group is still there."""
        self.process.terminate()
        wait_until(self.ended, 20)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def ended(self):
        return self.process.poll() is not None

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()
