#!/usr/bin/env python3
"""Flips one random bit at a time in messages, files and memory of jobs, and prints what followed.

  tests/long/flips.py [N [SEED]] [--kinds=NAME,...]    N flips (default 10000), by seed (default 1)

A flip is found (a named error, or a warning with the bits of the undisturbed run), without effect
(the bits of the undisturbed run), or silent (other bits without an error). The exit status is 1 if
a kind that must not be silent has a silent flip.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "history")]

FOUND, HARMLESS, SILENT = "found", "without effect", "silent"
JOB = """
name: "flips"
model { zoo: "mlp" arg { name: "hidden" value: "8" } arg { name: "classes" value: "4" }
        arg { name: "image" value: "1,4,4" } }
data { format: "synthetic" synthetic { image: 1 image: 4 image: 4 classes: 4 samples: 160 } }
optimizer { type: "momentum" learning_rate: 0.05 }
global_batch_size: 16
eval_every_epochs: 0
threads: 1
"""


class Tally:
    def __init__(self):
        self.counts = {FOUND: 0, HARMLESS: 0, SILENT: 0}
        self.examples = []

    def add(self, outcome, text):
        self.counts[outcome] += 1
        if outcome == SILENT and len(self.examples) < 5:
            self.examples.append(text)


def flip_file(rng, folder):
    """Flips one bit of one file below `folder`, each bit of all files with the same chance."""
    files = sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file() and p.stat().st_size)
    path = rng.choices(files, [p.stat().st_size for p in files])[0]
    at, bit = rng.randrange(path.stat().st_size), rng.randrange(8)
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))
    return f"byte {at} of {path.relative_to(folder)}"


class TrainerCheckpoints:
    """A trainer resumes from a directory with two checkpoints."""

    must_not_be_silent = True

    def __init__(self, build, folder):
        self.program, self.folder = build / "bin" / "tandem-trainer", pathlib.Path(folder)
        (self.folder / "job.pbtxt").write_text(JOB)
        self.good, self.bad = self.folder / "good", self.folder / "bad"
        self._run(self.good, 6)
        shutil.copytree(self.good, self.bad)
        self.expected = self._run(self.bad, 8)[0]

    def _run(self, checkpoints, steps):
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        done = subprocess.run(
            [self.program, self.folder / "job.pbtxt", f"--checkpoint.dir={checkpoints}",
             "--checkpoint.every_steps=3", "--checkpoint.keep=2", f"--steps_max={steps}",
             f"--result_json={result}"], capture_output=True, text=True, timeout=60, check=False)
        text = done.stdout + done.stderr
        return (json.loads(result.read_text())["params_sha256"] if done.returncode == 0 else None), text

    def flip(self, rng):
        shutil.rmtree(self.bad)
        shutil.copytree(self.good, self.bad)
        where = flip_file(rng, self.bad)
        sha, text = self._run(self.bad, 8)
        if sha is None:
            return (FOUND if "[TD" in text else SILENT), where
        if sha != self.expected:
            return SILENT, where
        return (FOUND if "warning" in text else HARMLESS), where


def train(address, steps, save_after=None, tls=None):
    """Returns the parameters after `steps` steps."""
    import numpy
    from tandem_pserver import Client
    with Client([address], step_timeout=4, start_timeout=4, retries=1, tls=tls) as client:
        client.configure({"w": (64,), "b": (8,)}, "momentum", {"mu": 0.9})
        params = {"w": numpy.arange(64, dtype="f4"), "b": numpy.ones(8, dtype="f4")}
        begin = client.init_or_fetch(params)
        client.barrier("begun")
        for step in range(begin, steps):
            gradients = {name: value * numpy.float32(0.25) + numpy.float32(step + 1)
                         for name, value in params.items()}
            client.push_pull(step, 0.1, gradients, params)
            if save_after == step:
                client.save()
        client.pull(params)
        return begin, {name: value.tobytes() for name, value in params.items()}


class ClearMessages:
    """Messages between a client and a server over TCP in the clear, on their way through a proxy.
    The client is a process, because gRPC 1.51 ends a process at some bytes."""

    must_not_be_silent = True
    tls, flags = "", ()

    def __init__(self, build, folder):
        self.build, self.folder = build, pathlib.Path(folder)
        self._prepare()
        self.totals = [0, 0]
        self.expected = self._round(None)
        self.totals = list(self.proxy_bytes)

    def _prepare(self):
        pass

    def _round(self, at):
        from pserver_process import Servers
        import proxy
        flips = self

        class Flipping(proxy.Proxy):
            def __init__(self):
                self.bytes, self.bytes_lock = [0, 0], threading.Lock()
                super().__init__()

            def passing(self, direction, data):
                with self.bytes_lock:
                    begin = self.bytes[direction]
                    self.bytes[direction] += len(data)
                flips.proxy_bytes = self.bytes
                if at is None or at[0] != direction or not begin <= at[1] < begin + len(data):
                    return data
                changed = bytearray(data)
                changed[at[1] - begin] ^= 1 << at[2]
                return bytes(changed)

        with Servers(str(self.build), 1, *self.flags) as servers:
            between = Flipping()
            host, port = servers.addresses[0].split(":")
            between.target = (host, int(port))
            try:
                return self._train(between.address)
            finally:
                between.close()

    def _train(self, address):
        return self._run([sys.executable, "-B", __file__, "--build", str(self.build),
                          f"--train_at={address}", f"--train_tls={self.tls}"])

    @staticmethod
    def _run(command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[-300:]}")
        return done.stdout

    def flip(self, rng):
        place = rng.randrange(sum(self.totals))
        direction = int(place >= self.totals[0])
        at = (direction, place - direction * self.totals[0], rng.randrange(8))
        try:
            got = self._round(at)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return FOUND, f"{at}: {error}"
        return (HARMLESS if got == self.expected else SILENT), str(at)


class TrainerMessages(ClearMessages):
    """The messages of a trainer, which has the C++ client."""

    def _prepare(self):
        (self.folder / "job.pbtxt").write_text(JOB.replace('"flips"', '"job"'))

    def _train(self, address):
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        self._run([self.build / "bin" / "tandem-trainer", self.folder / "job.pbtxt",
                   "--mode=pserver", f"--pservers={address}", "--pserver_transport=grpc",
                   "--steps_max=3", "--step_timeout_ms=4000", f"--result_json={result}"])
        return json.loads(result.read_text())["params_sha256"]


class TlsMessages(ClearMessages):
    """The same messages with mutual TLS."""

    must_not_be_silent = True

    def _prepare(self):
        pki, tandem = self.folder / "pki", self.build / "bin" / "tandem"
        for command in (["init", pki],
                        ["issue", pki, "--job=job", "--role=pserver", "--host=127.0.0.1"],
                        ["issue", pki, "--job=job", "--role=trainer"]):
            subprocess.run([tandem, "certs", *command], check=True, capture_output=True)
        self.tls = str(pki / "job" / "trainer")
        self.flags = (f"--tls_dir={pki / 'job' / 'pserver'}",)


class ServerFiles:
    """A server starts from a directory with a checkpoint, and an update log after it."""

    must_not_be_silent = True

    def __init__(self, build, folder):
        from pserver_process import Servers
        self.build, self.good = build, pathlib.Path(folder) / "server"
        with Servers(str(build), 1, "--durability=logged") as servers:
            train(servers.addresses[0], 6, save_after=2)
            servers.kill(0)
            shutil.copytree(pathlib.Path(servers.folder.name) / "0", self.good)
        self.expected = self._start(lambda folder: None)

    def _start(self, change):
        from pserver_process import Servers
        servers = Servers(str(self.build), 1, "--durability=logged")
        started = servers.start
        servers.start = lambda i: None
        with servers:
            folder = pathlib.Path(servers.folder.name) / "0"
            shutil.copytree(self.good, folder)
            change(folder)
            try:
                started(0)
                return train(servers.addresses[0], 7)
            finally:
                if servers.running[0] is not None and servers.running[0].poll() is None:
                    servers.kill(0)

    def flip(self, rng):
        where = []
        try:
            got = self._start(lambda folder: where.append(flip_file(rng, folder)))
        except Exception as error:  # a server that ends, or a client that is refused
            return (FOUND if "TD" in str(error) else SILENT), f"{where}: {error}"
        return (HARMLESS if got == self.expected else SILENT), str(where)


KINDS = {"trainer checkpoints": (TrainerCheckpoints, 0.05), "files of a pserver": (ServerFiles, 0.05),
         "messages to and from a pserver in the clear": (ClearMessages, 0.05),
         "messages of a trainer to and from a pserver in the clear": (TrainerMessages, 0.05),
         "messages to and from a pserver, TLS": (TlsMessages, 0.05)}
# Program -> filter, variable of the number of flips, share of the flips.
PROGRAMS = {
    "replay_check_test": ("*FlippedBits*", "TANDEM_REPLAY_FLIPS", 0.6),
    "trainer_param_checksums_test": ("*FlipsAreFound", "TANDEM_PARAM_FLIPS", 0.2),
}
# Kinds that may have silent flips (docs/project/benchmarks/flipped-bits.md#open).
SILENT_ALLOWED = ("weights of a rank", "messages of")


def of_program(build, name, count):
    """(kind, counts) of each line in the output of a program that flips bits of one process."""
    tests, variable, _ = PROGRAMS[name]
    done = subprocess.run([build / "tests" / name, f"--gtest_filter={tests}"], capture_output=True,
                          text=True, env={**os.environ, variable: str(count)}, check=False)
    rows = []
    for kind, found, harmless, silent in re.findall(
            r"flips: (.*): (\d+) found, (\d+) without effect, (\d+) silent", done.stdout):
        rows.append((kind, {FOUND: int(found), HARMLESS: int(harmless), SILENT: int(silent)}))
    replay = re.search(r"flips: (\d+) wrong results, all found; in memory (\d+) found, (\d+) without "
                       r"effect, (\d+) missed", done.stdout)
    if replay:
        wrong, found, harmless, missed = map(int, replay.groups())
        rows.append(("results of kernels, verify_replay", {FOUND: wrong, HARMLESS: 0, SILENT: 0}))
        rows.append(("memory of results, verify_replay",
                     {FOUND: found, HARMLESS: harmless, SILENT: missed}))
    if done.returncode != 0 or not rows:
        raise RuntimeError(f"{name} failed:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=10000)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--source", default=str(ROOT), help="not used")
    parser.add_argument("--kinds", default="", help="parts of names, separated by commas")
    parser.add_argument("--train_at", help="only train with the server at this address")
    parser.add_argument("--train_tls", help="directory of certificates")
    given = parser.parse_args()
    build = pathlib.Path(given.build).resolve()
    sys.path.insert(0, str(build / "python"))
    if given.train_at:
        begin, params = train(given.train_at, 3, tls=given.train_tls or None)
        print(begin, {name: hashlib.sha256(value).hexdigest() for name, value in params.items()})
        return 0
    wanted = [name for name in given.kinds.split(",") if name]
    rng, rows, examples, bad = random.Random(given.seed), [], [], False

    def chosen(name):
        return not wanted or any(part in name for part in wanted)

    for name, (make, share) in KINDS.items():
        if not chosen(name):
            continue
        with tempfile.TemporaryDirectory(prefix="tandem-flips-") as folder:
            kind, tally = make(build, folder), Tally()
            for _ in range(max(1, int(given.count * share))):
                tally.add(*kind.flip(rng))
        rows.append((name, tally.counts))
        examples += [f"{name}: {text}" for text in tally.examples]
        bad |= kind.must_not_be_silent and tally.counts[SILENT] > 0
        print(f"done: {name}: {tally.counts}", flush=True)
    for name, (_, _, share) in PROGRAMS.items():
        if chosen(name):
            rows += of_program(build, name, max(8, int(given.count * share)))
    print("| kind | flips | found | without effect | silent |\n|---|---|---|---|---|")
    for name, counts in rows:
        print(f"| {name} | {sum(counts.values())} | {counts[FOUND]} | {counts[HARMLESS]} | "
              f"{counts[SILENT]} |")
        bad |= counts[SILENT] > 0 and not name.startswith(SILENT_ALLOWED)
    for text in examples:
        print("silent:", text[:400])
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
