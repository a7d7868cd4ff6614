#!/usr/bin/env python3
"""Trains a small transformer_lm with DiLoCo and with synchronous data parallel.

usage: tests/long/diloco.py [--build=build] [--data=../shared/data] [--steps=8000] [--mbit=100,10]
                            [--only=loss|speed|kills] [--kill_s=3] [--seed=1]

Four learners train on tiny_shakespeare.txt. "loss": each form makes the same steps on one host, and
the table has the loss on the test part and the bytes that rank 0 gave to allreduce. "speed": each
learner is on its own emulated host (tandem-on-hosts) whose link has the rate --mbit. The table has
the time of a step, the bytes that a host sends, and the communication that the steps wait for: time
of a step above that of learners that never communicate. Bytes of the start are left out. "kills":
the form with pservers, undisturbed and while a random learner is killed (SIGKILL) or stopped for a
while (SIGSTOP) every --kill_s seconds. Prints tables in Markdown. Needs build/bench/tandem-on-hosts, and root for emulated hosts."""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

LEARNERS, PERIOD, SPEED_STEPS = 4, 33, 165
WARM_SHARE = 0.02  # of the steps, at whose begin the learners average after every step
JOB = """
name: "diloco"
model {
  zoo: "transformer_lm"
  arg { name: "layers" value: "2" }
  arg { name: "width" value: "128" }
  arg { name: "heads" value: "4" }
  arg { name: "sequence" value: "64" }
}
data { format: "text" dir: "%s" text { file: "tiny_shakespeare.txt" sequence: 64 } }
optimizer {
  type: "adamw" learning_rate: 0.001 weight_decay: 0.1 decay_exclude: ".b" decay_exclude: "norm"
  clip_global_norm: 1
  schedule { kind: COSINE warmup_steps: 50 end_factor: 0.1 }
}
global_batch_size: 16
epochs: 100
eval_every_epochs: 0
seed: 1
"""


def local(**knobs):
    return ["--localsgd=true", *(f"--localsgd_configs.{k}={v}" for k, v in knobs.items())]


def forms(warm_steps):
    """Flags of each form; `warm_steps`: begin_step of the forms with local steps."""
    outer = {"k_steps": PERIOD, "begin_step": warm_steps, "outer_optimizer": "nesterov",
             "outer_learning_rate": 1.0, "outer_momentum": 0.6}
    return {
        "synchronous": [],
        f"average every {PERIOD} steps": local(k_steps=PERIOD, begin_step=warm_steps),
        "DiLoCo": local(**outer),
        "Streaming DiLoCo, 4 fragments, delay 3":
            local(**outer, fragments=4, delay=3, merge_factor=0.5),
        "Streaming DiLoCo, 4 fragments, delay 8":
            local(**outer, fragments=4, delay=8, merge_factor=0.5),
    }


def decoupled(**more):
    """Flags of learners that exchange pseudo-gradients with pservers."""
    outer = {"k_steps": PERIOD, "outer_optimizer": "nesterov", "outer_learning_rate": 1.0,
             "outer_momentum": 0.6, "delay": 8, **more}
    return ["--a_sync=true", *local(**outer)]


PSERVER = ("--mode=pserver", "--servers=1", f"--workers={LEARNERS}")
DECOUPLED = {
    "decoupled, quorum 4, delay 2": decoupled(delay=2),
    "decoupled, quorum 4, delay 8": decoupled(),
    "decoupled, quorum 4, delay 8, 4 fragments": decoupled(fragments=4),
    "decoupled, quorum 2, delay 8, outer learning rate 0.5":
        decoupled(quorum=2, outer_learning_rate=0.5),
}


class Runs:
    def __init__(self, args, folder):
        self.bin = os.path.abspath(os.path.join(args.build, "bin"))
        self.on_hosts = os.path.abspath(os.path.join(args.build, "bench", "tandem-on-hosts"))
        self.folder = folder
        self.job = os.path.join(folder, "job.pbtxt")
        with open(self.job, "w", encoding="utf-8") as file:
            file.write(JOB % os.path.abspath(args.data))

    def _run(self, command):
        done = subprocess.run(command, cwd=self.folder, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout

    def _result(self):
        with open(os.path.join(self.folder, "result.json"), encoding="utf-8") as file:
            return json.load(file)

    def _command(self, steps, mode, flags):
        return [f"{self.bin}/tandemrun", *mode,
                f"--log_dir={self.folder}/logs", self.job, "--", f"--steps_max={steps}",
                f"--result_json={self.folder}/result.json", *flags]

    def on_one_host(self, steps, flags, mode=("--mode=collective", f"--nproc={LEARNERS}")):
        self._run(self._command(steps, mode, flags))
        return self._result()

    def with_kills(self, steps, flags, every_s, rng):
        """Returns the result, the seconds and the numbers of kills and stops. every_s 0: none."""
        mode = [*PSERVER, "--max_restarts=100000"]
        kills = stops = 0
        output = os.path.join(self.folder, "kills.out")
        begin = time.monotonic()
        with open(output, "w", encoding="utf-8") as file:
            job = subprocess.Popen(self._command(steps, mode, flags), cwd=self.folder, stdout=file,
                                   stderr=subprocess.STDOUT)
            while job.poll() is None:
                time.sleep(every_s * rng.uniform(0.5, 1.5) if every_s else 0.2)
                learners = children(job.pid, "tandem-trainer") if every_s else []
                if not learners:
                    continue
                learner = rng.choice(learners)
                try:
                    if rng.random() < 0.5:
                        os.kill(learner, signal.SIGKILL)
                        kills += 1
                    else:
                        os.kill(learner, signal.SIGSTOP)
                        time.sleep(rng.uniform(0.2, 2))
                        os.kill(learner, signal.SIGCONT)
                        stops += 1
                except ProcessLookupError:
                    pass
        seconds = time.monotonic() - begin
        if job.returncode != 0:
            with open(output, encoding="utf-8") as file:
                sys.exit(f"the job ended with {job.returncode}\n{file.read()[-3000:]}")
        return self._result(), seconds, kills, stops

    def on_slow_links(self, mbit, steps, flags):
        """Seconds a step of rank 0 (the first tenth left out), and bytes on the link of a host."""
        secret = os.path.join(self.folder, "secret")
        if not os.path.exists(secret):
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                      encoding="utf-8") as file:
                file.write("a secret of this measurement")
        text = self._run([
            self.on_hosts, f"--hosts={LEARNERS}", f"--mbit={mbit}", f"--logs={self.folder}", "--",
            "env", f"TANDEM_SECRET_FILE={secret}", f"{self.bin}/tandem-trainer",
            f"--job_file={self.job}", "--mode=collective", "--insecure_allow_network",
            "--optimizer.schedule.warmup_steps=5", f"--steps_max={steps}",
            f"--result_json={self.folder}/result.json", *flags])
        seconds = self._result()["history"]["seconds"]
        kept = seconds[len(seconds) // 10:]
        return sum(kept) / len(kept), max(json.loads(text)["bytes_sent"])


def loss_table(runs, steps):
    print(f"\n{steps} steps of 1024 tokens, {LEARNERS} learners, a period of {PERIOD} steps\n")
    print("| form | loss | against synchronous | MB to allreduce, rank 0 | fewer bytes | s |")
    print("|---|--:|--:|--:|--:|--:|")
    base = None
    for name, flags in forms(int(steps * WARM_SHARE)).items():
        result = runs.on_one_host(steps, flags)
        sent = result["counts"]["comm_bytes"]
        base = base or (result["loss"], sent)
        print(f"| {name} | {result['loss']:.4f} | {100 * (result['loss'] / base[0] - 1):+.2f} % | "
              f"{sent / 1e6:.1f} | {base[1] / sent:.1f} | {result['seconds']:.0f} |", flush=True)


def children(parent, program):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue
        match = re.match(r"\d+ \((.*)\) . (\d+)", text)
        if match and int(match[2]) == parent and match[1] == program[:15]:
            found.append(int(name))
    return found


def decoupled_table(runs, steps):
    print(f"\n{steps} steps of 1024 tokens, {LEARNERS} learners and one pserver\n")
    print("| form | loss | pushes of rank 0 | s |")
    print("|---|--:|--:|--:|")
    for name, flags in DECOUPLED.items():
        result = runs.on_one_host(steps, flags, PSERVER)
        print(f"| {name} | {result['loss']:.4f} | {result['counts']['ps.pushes']:.0f} | "
              f"{result['seconds']:.0f} |", flush=True)


def kills_table(runs, steps, every_s, seed):
    print(f"\n{steps} steps a learner, {LEARNERS} learners and one pserver; seed {seed}\n")
    print("| run | kills | stops | loss | s |")
    print("|---|--:|--:|--:|--:|")
    for name, seconds_between in (("undisturbed", 0), ("disturbed", every_s)):
        result, seconds, kills, stops = runs.with_kills(
            steps, next(iter(DECOUPLED.values())), seconds_between, random.Random(seed))
        print(f"| {name} | {kills} | {stops} | {result['loss']:.4f} | {seconds:.0f} |", flush=True)


def speed_table(runs, mbit):
    alone, start = runs.on_slow_links(mbit, SPEED_STEPS, local(k_steps=1000000, begin_step=0))
    print(f"\n{mbit:g} Mbit/s a host; without communication {1e3 * alone:.1f} ms a step\n")
    print("| form | ms a step | speed | KB a step | waited for, ms a step | against DiLoCo's |")
    print("|---|--:|--:|--:|--:|--:|")
    base, blocked = None, None
    for name, flags in forms(0).items():
        steps = SPEED_STEPS if flags else int(min(60, max(16, mbit)))
        step, sent = runs.on_slow_links(mbit, steps, flags)
        base = base or step
        waited = step - alone
        blocked = waited if name == "DiLoCo" else blocked
        share = f"{100 * waited / blocked:.0f} %" if blocked else ""
        sent = (sent - start) / steps / 1e3
        print(f"| {name} | {1e3 * step:.1f} | {base / step:.1f} | {sent:.0f} | "
              f"{1e3 * waited:.1f} | {share} |", flush=True)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--data", default=os.path.join(here, "../../../shared/data"))
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--mbit", default="100,10")
    parser.add_argument("--only", choices=("loss", "speed", "kills"))
    parser.add_argument("--kill_s", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-diloco-") as folder:
        runs = Runs(args, folder)
        if args.only in (None, "loss"):
            loss_table(runs, args.steps)
            decoupled_table(runs, args.steps)
        if args.only in (None, "kills"):
            kills_table(runs, args.steps, args.kill_s, args.seed)
        if args.only in (None, "speed"):
            for mbit in args.mbit.split(","):
                speed_table(runs, float(mbit))


if __name__ == "__main__":
    main()
