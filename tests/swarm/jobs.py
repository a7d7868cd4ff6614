"""Writes the job file of a combination, runs it with tandemrun in a separate directory, and says how
it ended and what it left."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import models

STEPS = 8
DEADLINE_S = 60
LEFT_S = 15  # seconds for the processes of a job to end after tandemrun
# Exit codes with which a job refuses its settings (docs/reference/exit-codes.md).
REFUSALS = {2, 78}
MARK = "TANDEM_SWARM_FOLDER"
_CRASH = re.compile(r"Check failed|\*\*\* SIG|SIGSEGV|SIGABRT|AddressSanitizer|runtime error: |"
                    r"terminate called|std::bad_alloc|Segmentation|pure virtual")


@dataclasses.dataclass
class Outcome:
    code: int
    output: str
    seconds: float
    result: dict  # of --result_json; empty: none was written
    command: list
    left: list  # what the job left: processes and files
    crash: str = ""  # a line that tells of a crash

    @property
    def ran(self):
        return self.code == 0

    @property
    def refused(self):
        return self.code in REFUSALS

    @property
    def sha(self):
        return self.result.get("params_sha256", "")

    @property
    def loss(self):
        return self.result.get("loss")


def _tree(fields):
    """Fields such as {"a.b": "1"} as {"a": {"b": "1"}}."""
    tree = {}
    for name, value in fields.items():
        *outer, last = name.split(".")
        inner = tree
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return tree


def _text(tree, extra):
    """A job file of a tree. `extra`: name of a message -> more of its contents."""
    lines = []
    for name, value in tree.items():
        if isinstance(value, dict):
            lines.append(f"{name} {{ {extra.get(name, '')} {_text(value, {})} }}")
        else:
            lines.append(f"{name} {value}" if value.startswith("{") else f"{name}: {value}")
    return "\n".join(lines)


def job_text(one, data_folder, steps=STEPS):
    """The job file of a combination. The trainer's flags may have the knobs instead."""
    model = models.BY_NAME[one.model]
    base = model.model
    for name in one.arguments:
        base = re.sub(rf'arg {{ name: "{name}" value: "[^"]*" }}', "", base)
    base += "".join(f' arg {{ name: "{name}" value: "{value}" }}'
                    for name, value in one.arguments.items())
    fields = {"name": '"swarm"', "eval_every_epochs": "0", "start_timeout_ms": "30000",
              "step_timeout_ms": "30000", "epochs": "100", "steps_max": str(steps), **one.job}
    fields.update({"optimizer." + name: value for name, value in one.optimizer.items()})
    if not one.as_flags:
        fields.update({"strategy." + name: value for name, value in one.knobs.items()})
    tree = {"model": {}, "data": {}, **_tree(fields)}
    return _text(tree, {"model": base, "data": model.data}).replace("DATA", data_folder) + "\n"


def _launch(one):
    flags = dict(one.launch)
    ranks = f"1:{one.ranks}" if flags.pop("--elastic", "") else str(one.ranks)
    words = {"local": ["--mode=local"], "collective": ["--mode=collective", f"--nproc={ranks}"],
             "pserver": [f"--servers={one.servers}", f"--workers={one.ranks}"],
             "hybrid": ["--mode=hybrid", f"--servers={one.servers}", f"--workers={one.ranks}"],
             }[one.mode]
    return words + [f"{name}={value}" if value else name for name, value in flags.items()]


class Folder:
    """A directory for the jobs of one combination. Removes it at the end."""

    def __init__(self, bin_folder, data_folder, parent=None):
        self.bin, self.data = bin_folder, data_folder
        self.path = tempfile.mkdtemp(prefix="sw", dir=parent)
        self.temporary, self.sockets = self.file("tmp"), self.file("run")
        for folder in (self.temporary, self.sockets, self.file("rendezvous")):
            os.mkdir(folder, 0o700)
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def run(self, one, checkpoints="", steps=STEPS):
        """Runs a combination. `checkpoints`: checkpoint.dir; empty: none."""
        self.count += 1
        name = f"j{self.count}"
        if self.count > 1:  # servers of a new job do not continue with the state of the one before
            shutil.rmtree(self.file("data"), ignore_errors=True)
        with open(self.file(name + ".pbtxt"), "w", encoding="utf-8") as file:
            file.write(job_text(one, self.data, steps))
        command = [os.path.join(self.bin, "tandemrun"), *_launch(one), "--quiet",
                   f"--log_dir={name}.log", name + ".pbtxt", "--", f"--result_json={name}.json"]
        if checkpoints:
            command.append(f"--checkpoint.dir={checkpoints}")
        command += [f"{flag}={value}" for flag, value in one.flags.items()]
        if one.as_flags:
            command += [f"--{knob}={value}" for knob, value in flag_values(one.knobs)]
        command = [word.replace("RENDEZVOUS", self.file("rendezvous")) for word in command]
        return self._outcome(command, name)

    def lint(self, one):
        """Exit code and output of tandem lint for a combination, with the knobs in the file."""
        with open(self.file("lint.pbtxt"), "w", encoding="utf-8") as file:
            file.write(f"mode: {one.mode.upper()}\n" +
                       job_text(one.copy(as_flags=False), self.data))
        run = subprocess.run([os.path.join(self.bin, "tandem"), "lint", f"--workers={one.ranks}",
                              "lint.pbtxt"], cwd=self.path, capture_output=True, text=True,
                             timeout=DEADLINE_S, check=False)
        return run.returncode, run.stdout + run.stderr

    def export(self, checkpoints):
        """Exit code and output of tandem export to all.npz."""
        run = subprocess.run([os.path.join(self.bin, "tandem"), "export", "--what=all", checkpoints,
                              "all.npz"], cwd=self.path, capture_output=True, text=True,
                             timeout=DEADLINE_S, check=False)
        return run.returncode, run.stdout + run.stderr

    def variables(self, one):
        """Names of the variables that operators of a combination's model write."""
        with open(self.file("graph.pbtxt"), "w", encoding="utf-8") as file:
            file.write(job_text(one.copy(job={"global_batch_size": "16"}), self.data))
        text = subprocess.run([os.path.join(self.bin, "tandem"), "graph", "graph.pbtxt",
                               "--after=model", "--output=json"], cwd=self.path,
                              capture_output=True, text=True, timeout=DEADLINE_S, check=True).stdout
        return [name for op in json.loads(text)["operators"] for name in op["writes"]]

    def _outcome(self, command, name):
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.path,
                       "TMPDIR": self.temporary, "XDG_RUNTIME_DIR": self.sockets, MARK: self.path}
        begin = time.monotonic()
        with open(self.file(name + ".out"), "w", encoding="utf-8") as out, \
                subprocess.Popen(command, cwd=self.path, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=out, start_new_session=True) as process:
            try:
                code = process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                code = -1
                process.kill()
        seconds = time.monotonic() - begin
        left = self._left(command)
        output, crash = self._read(name + ".out"), ""
        logs = self.file(name + ".log")
        for log in [name + ".out"] + [os.path.join(logs, f) for f in _listed(logs)
                                       if os.path.isfile(os.path.join(logs, f))]:
            crash = crash or next((line for line in self._read(log).splitlines()
                                   if _CRASH.search(line)), "")
        try:
            result = json.loads(self._read(name + ".json") or "{}")
        except ValueError:
            result, crash = {}, crash or "the result is no JSON"
        return Outcome(code, output, seconds, result, command, left, crash)

    def _read(self, name):
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def processes(self):
        """Ids of processes with the mark of this directory in their environment, or that work in it."""
        found, mark = [], f"{MARK}={self.path}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        continue
                with open(f"/proc/{entry}/environ", "rb") as file:
                    mine = mark in file.read().split(b"\0")
                if mine or os.readlink(f"/proc/{entry}/cwd").startswith(self.path):
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def kill(self):
        for process in self.processes():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _left(self, command):
        left, end = [], time.monotonic() + LEFT_S
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes():
            left.append(f"process {process}: {_command_line(process)}")
        self.kill()
        left += [f"temporary file {name}" for name in _listed(self.temporary)]
        left += [f"socket {name}" for name in _listed(self.sockets)]
        if any("RENDEZVOUS" in word or "file://" in word for word in command):
            left += [f"rendezvous {name}" for name in _listed(self.file("rendezvous"))
                     if not name.endswith(".lock")]
        left += [f"file {name}" for name in _listed(self.path)
                 if name.startswith(("core", ".")) or name.endswith((".tmp", ".new"))]
        for folder in (self.temporary, self.sockets):
            for name in _listed(folder):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        return left


def flag_values(knobs):
    """Knobs as flags of the trainer: texts without quotes, lists with commas."""
    for name, value in knobs.items():
        if value.startswith("["):
            value = ",".join(part.strip().strip('"') for part in value[1:-1].split(","))
        yield name, value.strip('"')


def _listed(folder):
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _command_line(process):
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "ended"
