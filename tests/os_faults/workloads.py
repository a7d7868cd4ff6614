"""Small jobs and commands that run with a fault, and then once more without one."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

DEADLINE_S = 60
MARK = "TANDEM_OS_FAULTS_FOLDER"
STEPS = 24

_TABLE = ('format: "table" dir: "." table { file: "numbers.csv" split: "0.8/0.2" '
          'column { name: "kind" kind: LABEL } }')
_CLICKS = ('format: "csv" dir: "." csv { train_file: "clicks.csv" '
           'test_file: "clicks.csv" label_column: "click" '
           'positive_label: "1" negative_label: "0" column { name: "user" ids: 22 } '
           'column { name: "item" kind: HASH ids: 13 } '
           'column { name: "age" kind: NUMERIC ids: 10 } }')
_TEXT = ('format: "text" dir: "." text { file: "words.txt" sequence: 8 stride: 8 predicted: 0 '
         "test_share: 0.1 }")
_WORDS = ('format: "skipgram" dir: "." skipgram { file: "words.txt" vocabulary: 20 window: 2 '
          "negatives: 2 test_share: 0.1 }")
_LM = ('zoo: "transformer_lm" arg { name: "layers" value: "1" } arg { name: "width" value: "8" } '
       'arg { name: "heads" value: "2" } arg { name: "sequence" value: "8" }')
_WORD2VEC = ('zoo: "word2vec" arg { name: "rows" value: "20" } arg { name: "dim" value: "4" } '
             'arg { name: "negatives" value: "2" }')
_MLP = 'zoo: "mlp" arg { name: "hidden" value: "8" }'
_DEEPFM = ('zoo: "deepfm" arg { name: "fields" value: "3" } arg { name: "rows" value: "45" } '
           'arg { name: "dim" value: "4" } arg { name: "hidden" value: "8" } '
           'arg { name: "sparse" value: "1" } arg { name: "distributed" value: "1" }')


def _job(model, data, checkpoints):
    checkpoint = 'checkpoint { dir: "ck" every_steps: 8 keep: 2 }' if checkpoints else ""
    return (f'name: "faults"\nmodel {{ {model} }}\ndata {{ {data} }}\n'
            'optimizer { type: "adagrad" learning_rate: 0.05 }\n'
            f"global_batch_size: 16\nepochs: 100\nsteps_max: {STEPS}\neval_every_epochs: 0\n"
            f"seed: 1\nstart_timeout_ms: 15000\nstep_timeout_ms: 10000\n{checkpoint}\n")


def write_inputs(folder):
    """The data of all jobs."""
    with open(os.path.join(folder, "numbers.csv"), "w", encoding="utf-8") as file:
        file.write("a,b,c,kind\n")
        for i in range(90):
            file.write(f"{i * 37 % 19},{i * 53 % 23},{i % 5},{'abc'[i * 7 % 3]}\n")
    with open(os.path.join(folder, "words.txt"), "w", encoding="utf-8") as file:
        file.write(" ".join("abcdefghij"[i * i * 31 % 97 % 10] * 2 for i in range(600)))
    with open(os.path.join(folder, "clicks.csv"), "w", encoding="utf-8") as file:
        file.write("user,item,age,click\n")
        for i in range(90):
            user, item, age = i * 7919 % 20, i * 104729 % 6, i * 31 % 60
            file.write(f"u{user},i{item},{10 + age},{int((user % 3 == item % 3) != (age < 20))}\n")


class Outcome:
    def __init__(self, code, seconds, screen, result, left):
        self.code, self.seconds, self.screen = code, seconds, screen
        self.result = result  # bits of the result; "": none
        self.left = left  # what is left: processes and files


class Folder:
    """A directory for the runs of one workload. Removes it at the end."""

    def __init__(self, bin_folder, path):
        self.bin, self.path = bin_folder, path
        os.makedirs(path)
        self.temporary, self.sockets = self.file("tmp"), self.file("run")
        for folder in (self.temporary, self.sockets):
            os.mkdir(folder, 0o700)
        write_inputs(path)
        self._job = None  # the command of start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.path, ignore_errors=True)

    def stop(self):
        """Ends all processes of this directory."""
        self.kill()
        if self._job is not None:
            self._job.terminate()
            try:
                self._job.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._job.kill()
                self._job.wait()

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self.file(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        try:
            with open(self.file(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def start(self, command, ready):
        """Starts a command that runs until the directory is removed. Waits for a text in a log."""
        words = [os.path.join(self.bin, command[0]), *command[1:]]
        os.makedirs(self.file("run-job"), mode=0o700)
        env = {"PATH": "/usr/bin:/bin", "HOME": self.path, "TMPDIR": self.file("run-job"),
               "XDG_RUNTIME_DIR": self.file("run-job")}
        with open(self.file("job-screen"), "w", encoding="utf-8") as out:
            self._job = subprocess.Popen(words, cwd=self.path, env=env, stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=out, start_new_session=True)
        end = time.monotonic() + DEADLINE_S
        while ready not in self.read("log/serverlog.0") or "step=" not in self.read("job-screen"):
            if time.monotonic() > end or self._job.poll() is not None:
                raise RuntimeError("the job did not start:\n" + self.read("job-screen"))
            time.sleep(0.05)

    def run(self, command, environment, limit=None, screen="screen"):
        """Exit code (None: still running after the deadline), seconds, and output of a command."""
        words = [os.path.join(self.bin, command[0]), *command[1:]]
        env = {"PATH": "/usr/bin:/bin", "HOME": self.path, "TMPDIR": self.temporary,
               "XDG_RUNTIME_DIR": self.sockets, MARK: self.path, **environment}
        begin = time.monotonic()
        with open(self.file(screen), "w", encoding="utf-8") as out, \
                subprocess.Popen(words, cwd=self.path, env=env, stdin=subprocess.DEVNULL,
                                 stdout=out, stderr=out, start_new_session=True,
                                 preexec_fn=limit) as process:
            try:
                code = process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                code = None
                self.kill()
        return code, time.monotonic() - begin, self.read(screen)

    def processes(self):
        """Ids of processes with the mark of this directory in their environment."""
        found, mark = [], f"{MARK}={self.path}".encode()
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        continue
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
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

    def left(self):
        """Processes and files that must not be there after a run."""
        end = time.monotonic() + 15
        while self.processes() and time.monotonic() < end:
            time.sleep(0.02)
        left = [f"process {process}" for process in self.processes()]
        self.kill()
        left += [f"temporary file {name}" for name in os.listdir(self.temporary)]
        left += [f"socket {name}" for name in os.listdir(self.sockets)]
        left += [f"file {name}" for name in os.listdir(self.path) if name.startswith("core")]
        for folder in (self.temporary, self.sockets):
            for name in os.listdir(folder):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        return left

    def unfinished(self):
        """Files with the names of unfinished ones. A later run of the same job removes them."""
        found = []
        for place, folders, files in os.walk(self.path):
            found += [os.path.join(place, name) for name in folders + files
                      if name.endswith((".tmp", ".new"))]
        return found


class Job:
    """A job that tandemrun starts. Its result are the parameters."""

    def __init__(self, name, text, flags, first=0):
        self.name, self.text, self.flags = name, text, flags
        self.first = first  # steps that an earlier run of the job did

    def prepare(self, folder):
        folder.write("job.pbtxt", self.text.replace(f"steps_max: {STEPS}",
                                                    f"steps_max: {self.first or STEPS}"))
        if self.first:
            outcome = self.run(folder, {})
            if outcome.code != 0:
                raise RuntimeError(f"the first part of {self.name} failed:\n{outcome.screen}")
            folder.write("job.pbtxt", self.text)

    def run(self, folder, environment, limit=None):
        if os.path.exists(folder.file("result.json")):
            os.unlink(folder.file("result.json"))
        command = ["tandemrun", *self.flags, "--log_dir=log", "job.pbtxt", "--",
                   "--result_json=result.json"]
        code, seconds, screen = folder.run(command, environment, limit)
        try:
            result = json.loads(folder.read("result.json") or "{}").get("params_sha256", "")
        except ValueError:
            result = "damaged"
        return Outcome(code, seconds, screen, result, folder.left())


def damaged_checkpoints(folder):
    """What `tandem export` says of named checkpoints that are not complete."""
    found, parent = [], folder.file("ck")
    for name in sorted(os.listdir(parent)) if os.path.isdir(parent) else []:
        if not name.startswith("step-") or name.endswith(".tmp"):
            continue
        code, _, screen = folder.run(["tandem", "export", "--what=all", f"ck/{name}", "check.npz"],
                                     {}, screen="check")
        if code != 0:
            found.append(f"{name}: {screen}")
    return found


class Command:
    """A command of `tandem` on the checkpoints of a finished job. Its result are its files, or its
    output if it writes none."""

    def __init__(self, name, command, files=()):
        self.name, self.command, self.files = name, command, files

    def prepare(self, folder):
        LOCAL.prepare(folder)
        outcome = LOCAL.run(folder, {})
        if outcome.code != 0:
            raise RuntimeError(f"the job of {self.name} failed:\n{outcome.screen}")

    def run(self, folder, environment, limit=None):
        for name in self.files:
            if os.path.exists(folder.file(name)):
                os.unlink(folder.file(name))
        code, seconds, screen = folder.run(["tandem", *self.command], environment, limit)
        result = hashlib.sha256()
        for name in self.files:
            if not os.path.exists(folder.file(name)):
                return Outcome(code, seconds, screen, "", folder.left())
            with open(folder.file(name), "rb") as file:
                result.update(file.read())
        if not self.files:
            result.update(screen.encode())
        return Outcome(code, seconds, screen, result.hexdigest(), folder.left())


class LiveCommand:
    """A command of `tandem` on a running job. It has no result but its end."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def prepare(self, folder):
        BY_NAME["pserver"].prepare(folder)
        folder.start(["tandemrun", *_PSERVER, "--log_dir=log", "job.pbtxt", "--",
                      "--steps_max=100000000", "--epochs=100000000"], "listening on")

    def run(self, folder, environment, limit=None):
        code, seconds, screen = folder.run(["tandem", *self.command], environment, limit)
        return Outcome(code, seconds, screen, "done" if code == 0 else "", folder.left())


LOCAL = Job("local", _job(_MLP, _TABLE, True), ["--mode=local"])
_PSERVER = ["--servers=1", "--workers=1", "--pserver_data_dir=data", "--durability=logged"]
WORKLOADS = [
    LOCAL,
    Job("pserver", _job(_DEEPFM, _CLICKS, False), _PSERVER),
    Job("pserver_restarts", _job(_DEEPFM, _CLICKS, False), [*_PSERVER, "--max_restarts=3"]),
    Job("pserver_resumed", _job(_DEEPFM, _CLICKS, False), _PSERVER, first=12),
    Job("local_resumed", _job(_MLP, _TABLE, True), ["--mode=local"], first=12),
    Job("collective", _job(_MLP, _TABLE, True), ["--mode=collective", "--nproc=2"]),
    Job("text", _job(_LM, _TEXT, False), ["--mode=local"]),
    Job("words", _job(_WORD2VEC, _WORDS, False), ["--mode=local"]),
    Command("lint", ["lint", "job.pbtxt"]),
    Command("export_npz", ["export", "--what=all", "ck", "all.npz"], ["all.npz"]),
    Command("export_onnx", ["export", "--job=job.pbtxt", "ck", "model.onnx"], ["model.onnx"]),
    LiveCommand("save", ["save", "log"]),
    LiveCommand("status", ["status", "log"]),
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}
