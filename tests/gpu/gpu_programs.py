"""Runs programs of the GPU list: each in a process group of its own, with a limit, and nothing is
left of it behind that."""

import glob
import os
import signal
import site
import subprocess
import sys
import time


def cuda_library_folders():
    """Where CUDA's libraries are: its own folder, or those of Python packages."""
    folders = ["/usr/local/cuda/lib64"]
    sites = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    for place in sites:
        folders += glob.glob(os.path.join(place, "nvidia", "*", "lib"))
    return [f for f in dict.fromkeys(folders) if os.path.isdir(f)]


def end_group(process):
    """Kills it and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last_words(process):
    """Of one that was killed; somebody else may have its pipe, or the driver keeps it."""
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        return text.decode(errors="replace") if isinstance(text, bytes) else text


class Programs:
    """Those of the folder `root`, with its libraries; for `budget_s` seconds in all."""

    def __init__(self, root, budget_s):
        self.root, self.begin, self.budget_s = root, time.monotonic(), budget_s
        self.late = False  # whether a program reached its time limit since the last check
        libraries = [os.path.join(root, "lib")] + cuda_library_folders()
        # cuDNN and cuBLASLt log why they reject a call.
        self.env = dict(os.environ, TANDEM_BIN_DIR=os.path.join(root, "bin"),
                        TANDEM_SOURCE_DIR=root, OMP_WAIT_POLICY="passive",
                        CUDNN_LOGLEVEL_DBG="1", CUDNN_LOGDEST_DBG="stderr", CUBLASLT_LOG_LEVEL="1",
                        LD_LIBRARY_PATH=":".join(libraries + [os.environ.get("LD_LIBRARY_PATH", "")]))

    def since_begin(self):
        return time.monotonic() - self.begin

    def left(self):
        return self.budget_s - self.since_begin()

    def start(self, command, env):
        """`env`: beside the list's own; of these None is taken out."""
        whole = {name: v for name, v in dict(self.env, **env).items() if v is not None}
        return subprocess.Popen(command, env=whole, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace",
                                start_new_session=True)

    def wait(self, process, limit):
        """Exit code and output; 124 when the limit is up."""
        try:
            text, _ = process.communicate(timeout=max(1, min(limit, self.left())))
            return process.returncode, text
        except subprocess.TimeoutExpired:
            self.late = True
            end_group(process)
            return 124, last_words(process)
        finally:
            end_group(process)

    def call(self, command, limit, **env):
        """Of start and wait; 127 when there is no such program."""
        try:
            process = self.start(command, env)
        except OSError as error:
            return 127, str(error)
        return self.wait(process, limit)
