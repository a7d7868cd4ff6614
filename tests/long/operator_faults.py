#!/usr/bin/env python3
"""Reruns the faults that an operator found from outside, with real processes, and prints a table.

  tests/long/operator_faults.py [--runs=10] [--only=NAME,...] [--keep]

Each fault runs `--runs` times. A run passes if the job ends as the table in
docs/project/track-record.md promises. The script needs root for the faults that mount a small tmpfs.
It takes about 25 minutes with 10 runs on 2 cores. The exit status is 1 if any run failed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
STEP_TIMEOUT_MS = 4000
JOB_SECONDS_MAX = 180

WORD2VEC = """
name: "words"
model {
  zoo: "word2vec"
  arg { name: "rows" value: "5000" }
  arg { name: "dim" value: "64" }
}
data {
  format: "skipgram"
  dir: "."
  skipgram { file: "text.txt" vocabulary: 5000 }
}
optimizer { type: "adagrad" learning_rate: 0.05 }
global_batch_size: 512
epochs: 9
seed: 1
"""


class Job:
    """A tandemrun with its log folder, result file and output."""

    def __init__(self, folder, job_file, flags, trainer_flags, limit="", result_file=None):
        self.folder, self.log_dir = folder, folder / "log"
        self.result_file = result_file or folder / "result.json"
        self.screen_file = folder / "screen"
        command = [str(BIN / "tandemrun"), f"--log_dir={self.log_dir}", *flags, job_file, "--",
                   f"--step_timeout_ms={STEP_TIMEOUT_MS}", "--epochs=9",
                   f"--result_json={self.result_file}", *trainer_flags]
        if limit:
            command = ["bash", "-c", f'{limit}; exec "$@"', "limited", *command]
        self.start = time.monotonic()
        with open(self.screen_file, "w", encoding="utf-8") as screen:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL,
                                            stdout=screen, stderr=screen, start_new_session=True)

    def events(self):
        try:
            lines = (self.log_dir / "events.jsonl").read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def pid_of(self, name):
        """The newest process of this name, e.g. "pserver 1"."""
        pids = [e["pid"] for e in self.events() if e.get("process") == name and e.get("pid")]
        return pids[-1] if pids else None

    def wait_for_step(self, step, seconds=60):
        """Waits until a trainer printed a step of at least this number."""
        def reached():
            text = "".join(p.read_text(encoding="utf-8", errors="replace")
                           for p in self.log_dir.glob("workerlog.*"))
            return any(int(n) >= step for n in re.findall(r"\bstep=(\d+)", text))
        return wait_until(lambda: reached() or self.process.poll() is not None, seconds)

    def wait(self):
        """Exit status and seconds; a job that does not end is killed and gives None."""
        try:
            status = self.process.wait(timeout=JOB_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - self.start
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        return status, seconds

    def screen(self):
        return self.screen_file.read_text(encoding="utf-8", errors="replace")

    def bits(self):
        try:
            return json.loads(self.result_file.read_text(encoding="utf-8")).get("params_sha256")
        except (OSError, ValueError):
            return None


def wait_until(done, seconds):
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Tmpfs:
    """A file system of a given size, mounted while the block runs."""

    def __init__(self, folder, size):
        self.folder, self.size = folder, size

    def __enter__(self):
        self.folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size},mode=0700", "tmpfs", self.folder],
                       check=True)
        return self.folder

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder], check=False)


def write_inputs(folder):
    """lenet.pbtxt and words.pbtxt, with a text that the repository has."""
    lenet = (ROOT / "deploy/examples/lenet.pbtxt").read_text(encoding="utf-8")
    lenet = re.sub(r"^checkpoint .*\n", "", lenet, flags=re.MULTILINE)
    (folder / "lenet.pbtxt").write_text(lenet, encoding="utf-8")
    (folder / "words.pbtxt").write_text(WORD2VEC, encoding="utf-8")
    text = "".join(p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").rglob("*.md")))
    (folder / "text.txt").write_text(text, encoding="utf-8")


_UNDISTURBED = {}


def undisturbed_bits(inputs, job, flags, trainer_flags):
    """The parameters' SHA-256 of the same job without a fault."""
    key = (job, *[f for f in flags if not f.startswith(("--pserver_data", "--max_restarts",
                                                        "--durability"))], *trainer_flags)
    if key not in _UNDISTURBED:
        with tempfile.TemporaryDirectory() as folder:
            run = Job(pathlib.Path(folder), inputs / job,
                      [f for f in flags if f in key], trainer_flags)
            status, _ = run.wait()
            if status != 0:
                sys.exit(f"the undisturbed job failed with {status}:\n{run.screen()}")
            _UNDISTURBED[key] = run.bits()
    return _UNDISTURBED[key]


def drained(inputs, folder, turn):
    """A pserver that was drained and then stopped does not fail a job with tables."""
    mode = ["--a_sync=true"] if turn % 2 else []
    job = Job(folder, inputs / "words.pbtxt",
              ["--servers=2", "--workers=2", f"--pserver_data_dir={folder}/data",
               "--durability=logged"], ["--steps_max=4000", *mode])
    job.wait_for_step(50)
    told = subprocess.run([str(BIN / "tandem"), "drain", str(job.log_dir), "--pserver=1"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    pid = job.pid_of("pserver 1")
    if told.returncode == 0 and pid:
        os.kill(pid, signal.SIGTERM if turn % 4 < 2 else signal.SIGKILL)
    status, seconds = job.wait()
    good = told.returncode == 0 and status == 0 and job.bits() is not None
    return good, f"rc {status}, {seconds:.0f} s, result {'written' if job.bits() else 'missing'}", job


def no_room_at_start(inputs, folder, turn):
    """A data folder without room for the update log ends the job at once, by name."""
    size, servers = (("66m", 1), ("90m", 1), ("200m", 2))[turn % 3]
    with Tmpfs(folder / "small", size) as small:
        if servers == 2:
            (small / "fill").write_bytes(b"\0" * (70 << 20))
        job = Job(folder, inputs / "lenet.pbtxt",
                  [f"--servers={servers}", "--workers=1", f"--pserver_data_dir={small}/data",
                   f"--durability={('logged', 'replayable')[turn % 2]}"], ["--steps_max=800"])
        status, seconds = job.wait()
    named = "TD2107" in job.screen()
    good = (status == 74 and named or status == 0) and seconds < 30
    return good, f"rc {status}, {seconds:.0f} s, disk {'named' if named else 'not named'}", job


def disk_fills(inputs, folder, turn):
    """A disk that fills in the middle of a job ends it by name."""
    with Tmpfs(folder / "small", "500m") as small:
        job = Job(folder, inputs / "lenet.pbtxt",
                  ["--servers=2", "--workers=2", f"--pserver_data_dir={small}/data",
                   "--durability=logged"], ["--steps_max=3000"])
        job.wait_for_step(50)
        with open(small / "fill", "wb") as file:
            try:
                while True:
                    file.write(b"\0" * (1 << 20))
                    file.flush()
            except OSError:
                pass
        filled = time.monotonic()
        status, _ = job.wait()
    seconds = time.monotonic() - filled
    named = "TD2107" in job.screen()
    return (status == 74 and named,
            f"rc {status}, {seconds:.0f} s after the disk was full, "
            f"disk {'named' if named else 'not named'}", job)


def hang(inputs, folder, flags, trainer_flags, name):
    expected = undisturbed_bits(inputs, "lenet.pbtxt", flags, trainer_flags)
    job = Job(folder, inputs / "lenet.pbtxt", flags, trainer_flags)
    job.wait_for_step(100)
    pid = job.pid_of(name)
    if pid:
        os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    wait_until(lambda: job.pid_of(name) not in (None, pid) or job.process.poll() is not None,
               JOB_SECONDS_MAX)
    waited = time.monotonic() - stopped
    replaced = job.pid_of(name) not in (None, pid)
    status, _ = job.wait()
    equal = job.bits() == expected
    return (status == 0 and equal and replaced and waited < 2 * STEP_TIMEOUT_MS / 1000 + 3,
            f"rc {status}, {'replaced' if replaced else 'not replaced'} after {waited:.1f} s, "
            f"bits {'equal' if equal else 'differ'}", job)


def hang_pserver_mode(inputs, folder, turn):
    """A stopped trainer or pserver is named, killed and replaced (pserver mode)."""
    name = ("trainer 0", "pserver 0", "trainer 1", "pserver 1")[turn % 4]
    good, text, job = hang(inputs, folder,
                           ["--servers=2", "--workers=2", "--max_restarts=3",
                            f"--pserver_data_dir={folder}/data", "--durability=logged"],
                           ["--steps_max=1500"], name)
    return good, f"{name}: {text}", job


def hang_collective(inputs, folder, turn):
    """A stopped rank is named, killed and replaced within twice the step timeout (collective mode)."""
    name = f"trainer {turn % 2}"
    good, text, job = hang(inputs, folder, ["--mode=collective", "--nproc=2", "--max_restarts=2"],
                           ["--steps_max=1500"], name)
    return good, f"{name}: {text}", job


def limits(inputs, folder, turn):
    """Limits of the host are named as what they are."""
    kind = turn % 5
    screen_has, log = None, folder / "log"
    if kind == 0:
        job = Job(folder, inputs / "lenet.pbtxt", ["--mode=collective", "--nproc=2"],
                  ["--steps_max=200"], limit="ulimit -v 200000")
        screen_has = re.compile(r"memory|cannot start a thread", re.IGNORECASE)
    elif kind == 1:
        job = Job(folder, inputs / "lenet.pbtxt",
                  ["--servers=2", "--workers=2", f"--pserver_data_dir={folder}/data",
                   "--durability=logged"], ["--steps_max=400"], limit="ulimit -f 2000")
        screen_has = re.compile("File too large|TD2107|TD211")
    elif kind == 2:
        job = Job(folder, inputs / "lenet.pbtxt", ["--servers=2", "--workers=2"],
                  ["--steps_max=100"], limit="ulimit -n 16")
        screen_has = re.compile("TD2114")
    elif kind == 3:
        with Tmpfs(log, "20k"):
            (log / "fill").write_bytes(b"\0" * 12000)
            job = Job(folder, inputs / "lenet.pbtxt", ["--mode=collective", "--nproc=2"],
                      ["--steps_max=400", "--log_every_steps=1"])
            status, seconds = job.wait()
        named = re.search("No space left on device", job.screen()) is not None
        return named, f"full log folder: rc {status}, {seconds:.0f} s, {'named' if named else 'silent'}", job
    else:
        job = Job(folder, inputs / "lenet.pbtxt", ["--mode=collective", "--nproc=2"],
                  ["--steps_max=3000"], result_file=pathlib.Path("/proc/result.json"))
        screen_has = re.compile("result.json: cannot be created")
    what = ("ulimit -v", "ulimit -f", "ulimit -n 16", "", "unwritable result_json")[kind]
    status, seconds = job.wait()
    screen = job.screen()
    good = (status not in (0, None) and screen_has.search(screen) is not None
            and "crash is a bug" not in screen and "holds 0 characters" not in screen)
    if kind == 4:
        good = good and seconds < 5
    return good, f"{what}: rc {status}, {seconds:.0f} s", job


FAULTS = {f.__name__: f for f in (drained, no_room_at_start, disk_fills, hang_pserver_mode,
                                  hang_collective, limits)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", default=",".join(FAULTS))
    parser.add_argument("--keep", action="store_true", help="keep the folders of failed runs")
    args = parser.parse_args()
    failed = 0
    print("| fault | runs | passed | outcomes |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as inputs_name:
        inputs = pathlib.Path(inputs_name)
        write_inputs(inputs)
        for name in args.only.split(","):
            outcomes, passed = {}, 0
            for turn in range(args.runs):
                folder = pathlib.Path(tempfile.mkdtemp(prefix=f"operator-{name}-"))
                good, text, job = FAULTS[name](inputs, folder, turn)
                passed += good
                outcomes[text] = outcomes.get(text, 0) + 1
                if not good:
                    print(f"failed: {name} run {turn}: {text}; {folder}", file=sys.stderr)
                    print(job.screen()[-3000:], file=sys.stderr, flush=True)
                if good or not args.keep:
                    shutil.rmtree(folder, ignore_errors=True)
            failed += args.runs - passed
            told = "; ".join(f"{text} ({count})" if count > 1 else text
                             for text, count in outcomes.items())
            print(f"| {FAULTS[name].__doc__} | {args.runs} | {passed} | {told} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
