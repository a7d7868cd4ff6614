#!/usr/bin/env python3
"""Runs the GPU list over programs that are built (see run.sh) and writes gpu.json and gpu.md.

The report is written behind every step, so that one which is stopped leaves what it has. What is
measured and which jobs are trained stands in gpu_jobs.py."""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
import traceback

import gpu_jobs
from gpu_programs import Programs

BUDGET_S = 530
TIME_IS_UP = "the time is up"
LOG_CHARS = 1 << 20  # kept characters of a program's output, half from its beginning
LOGS_CHARS = 12 << 20  # limit for all programs
# One process each, so that a device error in one of them does not affect the others.
KERNELS = [["Linear"], ["Image"], ["Norm"], ["Elementwise", "Dense", "Layout"],
           ["Loss", "Embedding", "Optimizer", "Click", "Regime", "Update"], ["Fused"], ["Half"],
           ["RandomShapes"]]


def kernels_name(parts):
    return "kernels: " + (", ".join(parts) or "the others")


class GpuList:
    def __init__(self, root, out, jobs, small):
        self.root, self.out, self.jobs, self.small = root, out, jobs, small
        self.programs = Programs(root, BUDGET_S)
        self.left, self.call = self.programs.left, self.programs.call
        self.speeds = {}  # samples per second, by row
        self.kept = 0  # characters kept so far
        # `done`: items of the list that ended, with the steps that they added; `late`: those that
        # reached a time limit.
        self.report = {"date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
                       "small": small, "steps": [], "done": {}, "late": []}

    def add(self, name, ok, text, **figures):
        """`ok`: True, False, or None for what did not run."""
        self.report["steps"].append({"name": name, "ok": ok, "text": text,
                                     "at_s": round(self.programs.since_begin(), 1), **figures})
        self.write()

    def write(self):
        with open(os.path.join(self.out, "gpu.json"), "w", encoding="utf-8") as file:
            json.dump(self.report, file, indent=1)
        lines = ["# GPU list", "", f"{self.report['date']}, commit {self.report.get('commit')}",
                 f"on {self.report.get('device')}", "", "| step | | |", "|---|---|---|"]
        for step in self.report["steps"]:
            verdict = {True: "ok", False: "FAILED", None: "not run"}[step["ok"]]
            first = step["text"].strip().replace("|", "/").replace("\n", "<br>")
            lines.append(f"| {step['name']} | {verdict} | {first} |")
        with open(os.path.join(self.out, "gpu.md"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def keep(self, name, text):
        """One file for all: few come back from where this runs, and none that is large."""
        if len(text) > LOG_CHARS:
            text = text[:LOG_CHARS // 2] + "\n...\n" + text[-LOG_CHARS // 2:]
        text = f"==== {name}\n{text}\n"[:LOGS_CHARS - self.kept]
        with open(os.path.join(self.out, "logs.txt"), "a" if self.kept else "w",
                  encoding="utf-8") as file:
            file.write(text)
        self.kept += len(text)

    def machine(self):
        """False when there is no device."""
        try:
            with open(os.path.join(self.root, "commit"), encoding="utf-8") as file:
                self.report["commit"] = file.read().strip()
        except OSError:
            self.report["commit"] = "unknown"
        code, text = self.call(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                "--format=csv,noheader"], 30)
        self.report["device"] = text.strip() if code == 0 else "no device"
        self.add("device", code == 0 or None, text[:300])
        return code == 0

    def gtest(self, name, program, limit, *flags):
        code, text = self.call([os.path.join(self.root, "tests", program), *flags], limit,
                               TANDEM_SMALL_ROWS="1")
        self.keep(name, text)
        told = [line for line in text.splitlines()
                if " rows" in line or line.startswith("[  FAILED  ]") or "SKIPPED" in line]
        self.add(name, code == 0, "\n".join([f"exit code {code}"] + told[:40]))

    def kernels(self, parts):
        """`parts`: tests of gpu_kernels_test; none: those that KERNELS has not."""
        every = [f"CudaDevice.{one}" for row in KERNELS for one in row]
        only = [f"CudaDevice.{one}" for one in parts] or ["-" + ":".join(every)]
        self.gtest(kernels_name(parts), "gpu_kernels_test", 90, "--gtest_filter=" + ":".join(only))

    def train(self, name, job, place, steps, limit, flags=()):
        """The result of a job, or None; its output."""
        with tempfile.TemporaryDirectory() as folder:
            path, result = os.path.join(folder, "job.pbtxt"), os.path.join(folder, "result.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job)
            code, text = self.call([os.path.join(self.root, "bin", "tandem-trainer"),
                                    "--job_file=" + path, "--place=" + place,
                                    f"--steps_max={steps}", "--result_json=" + result, *flags],
                                   limit)
            if code != 0:
                return None, f"{name} on {place}: exit code {code}\n" + text[-1500:]
            with open(result, encoding="utf-8") as file:
                return json.load(file), text

    def train_with_server(self, job, place, steps, flags):
        """The result of a job with one pserver, both on `place`, or None; their output."""
        with tempfile.TemporaryDirectory() as folder:
            path, result = os.path.join(folder, "job.pbtxt"), os.path.join(folder, "result.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job)
            code, text = self.call([os.path.join(self.root, "bin", "tandemrun"), "--servers=1",
                                    "--workers=1", "--pserver_place=" + place,
                                    "--log_dir=" + folder, path, "--", "--place=" + place,
                                    f"--steps_max={steps}",
                                    "--result_json=" + result, *flags], 60)
            if code != 0:
                return None, f"exit code {code}\n" + text[-1500:]
            with open(result, encoding="utf-8") as file:
                return json.load(file), text

    # ---- Correctness --------------------------------------------------------------------------

    def losses(self, name, job, steps, tolerance):
        results = {}
        for place in ("cpu", "cuda"):
            results[place], why = self.train(name, job, place, steps, 40)
            if results[place] is None:
                return self.add(f"losses of {name}", False, why)
        cpu, cuda = (results[p]["history"]["loss"] for p in ("cpu", "cuda"))
        gaps = [abs(a - b) if a is not None and b is not None else math.inf
                for a, b in zip(cpu, cuda)]
        ok = len(cpu) == len(cuda) and len(gaps) > 0 and max(gaps) <= tolerance
        return self.add(f"losses of {name}", ok,
                        f"{len(gaps)} steps, largest difference {max(gaps, default=math.inf):.3g} "
                        f"(allowed {tolerance}); last {cpu[-1]} and {cuda[-1]}",
                        cpu=cpu, cuda=cuda)

    def amp(self):
        """The scale is that of the CPU after ever more steps, through overflows and growth."""
        job, steps = self.jobs.amp()
        scales = {}
        for place in ("cpu", "cuda"):
            for until in (steps // 4, steps // 2, steps):
                result, why = self.train("amp", job, place, until, 30)
                if result is None:
                    return self.add("AMP scale", False, why)
                scales.setdefault(place, []).append(result["counts"]["loss_scaling"])
        return self.add("AMP scale", scales["cpu"] == scales["cuda"] and scales["cpu"][0] < 1e12,
                        f"scale after {steps // 4}, {steps // 2} and {steps} steps: CPU "
                        f"{scales['cpu']}, CUDA {scales['cuda']}; it began with 1e12, so steps "
                        "overflowed and were left out")

    def ranks(self, count, job, steps, flags, rendezvous, kill_s=None):
        """The result of a collective job of `count` ranks on one card, or None; what they said.

        NCCL refuses two ranks on one device of one host: each is told that it is a host."""
        with tempfile.TemporaryDirectory() as folder:
            path, result = os.path.join(folder, "job.pbtxt"), os.path.join(folder, "result.json")
            secret = os.path.join(folder, "secret")
            for name, text in ((path, job), (secret, "the secret of the list\n")):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(text)
            os.chmod(secret, 0o600)
            command = [os.path.join(self.root, "bin", "tandem-trainer"), "--job_file=" + path,
                       "--mode=collective", "--place=cuda:0", f"--steps_max={steps}",
                       "--fraction_of_gpu_memory_to_use=0.1", "--step_timeout_ms=10000",
                       "--result_json=" + result] + flags
            running = []
            for rank in range(count):
                running.append(self.programs.start(command, {
                    "TANDEM_RANK": str(rank), "TANDEM_SIZE": str(count),
                    "TANDEM_RENDEZVOUS": rendezvous, "TANDEM_SECRET_FILE": secret,
                    "TANDEM_JOB": "gpu-list", "NCCL_HOSTID": f"tandem-{rank}",
                    "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN"}))
            if kill_s is not None:
                time.sleep(kill_s)
                running[-1].kill()
            texts = []
            end = time.monotonic() + 45  # limit for all of them
            for process in running:
                code, text = self.programs.wait(process, end - time.monotonic())
                texts.append(text + ("\nkilled: it did not end" if code == 124 else ""))
            self.keep("NCCL " + " ".join(flags), "\n".join(texts))
            said = "\n".join(text[-1200:] for text in texts)
            if any(process.returncode != 0 for process in running):
                return None, said
            with open(result, encoding="utf-8") as file:
                return json.load(file), said

    def nccl(self):
        """One rank alone and several on one card against one process without communication."""
        if self.small:
            return self.add("NCCL", None, "the stand-in has none")
        _, job, steps, _ = self.jobs.losses()[0]
        steps = min(steps, 40)
        alone, why = self.train("lenet", job, "cuda", steps, 60)
        if alone is None:
            return self.add("NCCL", False, why)
        port, failed = 29600, 0
        for name, count, flags in gpu_jobs.NCCL:
            port += 1
            if failed == 2:
                self.add(f"NCCL: {name}", None, "two others failed")
                continue
            result, why = self.ranks(count, job, steps, flags, f"127.0.0.1:{port}")
            if result is None:
                failed += 1
                self.add(f"NCCL: {name}", False, why)
                continue
            gap = abs(result["loss"] - alone["loss"])
            self.add(f"NCCL: {name}", gap <= 2e-3 and result["counts"]["comm"] > 0,
                     f"{count} ranks, loss {result['loss']:.6f}, of one process "
                     f"{alone['loss']:.6f}")
        if failed == 2:
            return self.add("NCCL: a rank is killed", None, "two others failed")
        begin = time.monotonic()
        result, said = self.ranks(2, job, 10**6, ["--epochs=1000000"], "127.0.0.1:29590", 8)
        return self.add("NCCL: a rank is killed", result is None and "rank 1" in said and
                        "killed: it did not end" not in said,
                        f"the other ended {time.monotonic() - begin - 8:.1f} s later\n"
                        + said[-400:])

    def sanitizer(self):
        """compute-sanitizer over the own kernels; not over cuDNN's and cuBLASLt's."""
        if self.small:
            return self.add("compute-sanitizer", None, "for devices")
        program = os.path.join(self.root, "tests", "gpu_kernels_test")
        kernels = "Norm Elementwise Dense Layout Loss Embedding Optimizer Click Regime Update".split()
        only = "--gtest_filter=" + ":".join([f"CudaDevice.{name}" for name in kernels] +
                                            ["CudaSearch.*"])
        sanitizer = shutil.which("compute-sanitizer",
                                 path=os.environ["PATH"] + ":/usr/local/cuda/bin")
        for tool in ("memcheck", "racecheck"):
            name = f"compute-sanitizer {tool}"
            if sanitizer is None:
                self.add(name, None, "there is no compute-sanitizer")
                continue
            code, text = self.call([sanitizer, "--tool", tool, "--error-exitcode", "9",
                                    program, only], 45, TANDEM_SMALL_ROWS="1")
            self.keep("sanitizer_" + tool, text)
            wrong = [line for line in text.splitlines() if "ERROR SUMMARY" in line or
                     "Device not supported" in line or "hazard" in line.lower()]
            self.add(name, None if code == 124 or "Device not supported" in text else code == 0,
                     f"exit code {code}\n" + "\n".join(wrong[:5]))

    # ---- Speed --------------------------------------------------------------------------------

    def guide_job(self):
        """The job of Fleet's guide, as it prints itself."""
        path = os.path.join(self.root, "deploy", "examples", "resnet50.pbtxt")
        if self.small or not os.path.exists(path):
            return self.add("the guide's resnet50", None, "" if self.small else f"no {path}")
        code, text = self.call([os.path.join(self.root, "bin", "tandem-trainer"),
                                "--job_file=" + path, "--place=cuda", "--steps_max=60",
                                "--log_format=fleet", "--eval_every_epochs=0"], 60)
        lines = [line for line in text.splitlines() if "speed:" in line]
        return self.add("the guide's resnet50", code == 0 and len(lines) > 10,
                        "\n".join(lines[-3:] + ["Fleet's guide prints about 520 on a V100"])
                        if code == 0 else f"exit code {code}\n" + text[-1500:])

    @staticmethod
    def median_s(result, steps):
        seconds = sorted(result["history"]["seconds"][steps // 3:])
        return seconds[len(seconds) // 2]

    @staticmethod
    def card_share(result, seconds):
        """Share of the card's limit (kernels/exec/roofline.h) that a step reaches; in words."""
        limit_ms = result["counts"].get("device.limit_ms")
        if not limit_ms:
            return None, ", the card's limit is not known"
        share = limit_ms / (seconds * 1e3)
        return share, f", {share:.1%} of the card's limit ({limit_ms:.3f} ms)"

    def speed(self, name, job, batch, steps, peer):
        result, why = self.train(name, job, "cuda", steps, 40)
        if result is None:
            return self.add(name, False, why)
        middle = self.median_s(result, steps)
        self.speeds[name] = batch / middle
        share, text = self.card_share(result, middle)
        self.add(name, True, f"{batch / middle:.0f} samples/s, {middle * 1e3:.3f} ms a step{text}, "
                 f"{result['data_wait_seconds']:.2f} s waited for data",
                 samples_per_s=batch / middle, card_share=share)
        return self.peer(name, peer, "eager", 60) if peer else None

    def servers(self):
        """deepfm with a pserver on the same machine: both on the card against both on the CPU."""
        name = "deepfm with a pserver, both on the card"
        job, batch, steps, peer = self.jobs.servers()
        results = {}
        for place in ("cpu", "cuda"):
            results[place], why = self.train_with_server(job, place, steps,
                                                         ["--optimizer.type=sgd"])
            if results[place] is None:
                return self.add(name, False, why)
        cpu, cuda = results["cpu"], results["cuda"]
        self.speeds[name] = batch / self.median_s(cuda, steps)
        share, text = self.card_share(cuda, self.median_s(cuda, steps))
        self.add(name, abs(cpu["loss"] - cuda["loss"]) <= 2e-3,
                 f"{self.speeds[name]:.0f} samples/s{text}, loss {cuda['loss']:.6f}; on the CPU "
                 f"{batch / self.median_s(cpu, steps):.0f}, {cpu['loss']:.6f}",
                 samples_per_s=self.speeds[name], card_share=share)
        return self.peer(name, peer, "eager", 60) if peer else None

    def peer(self, name, peer, how, limit):
        """PyTorch on the same card; `how`: eager or compile. The whole step may take `limit`."""
        title = f"PyTorch {how}: {name}"
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_torch.py")
        code, out = self.call([sys.executable, script, *peer.split(), how, "30"], limit,
                              LD_LIBRARY_PATH=os.environ.get("LD_LIBRARY_PATH"))
        figures = [line for line in out.splitlines() if line.startswith("{")]
        if code != 0 or not figures:
            return self.add(title, None, f"exit code {code}: " + out.strip()[-200:])
        other = json.loads(figures[-1])
        speed, own = other["samples_per_s"], self.speeds.get(name)
        times = f", Tandem {own / speed:.2f} times that" if own else ""
        return self.add(title, True, f"torch {other['torch']}: {speed:.0f} samples/s{times}",
                        samples_per_s=speed)

    def knobs(self):
        (job, batch, steps), rows = self.jobs.knobs()
        for name, flags, counters in rows:
            if self.left() < 15:
                self.add(f"knob {name}", None, TIME_IS_UP)
                continue
            search = any("exhaustive_search" in flag for flag in flags)
            result, why = self.train(name, job, "cuda", steps, 30 if search else 15, flags)
            if result is None:
                self.add(f"knob {name}", False, why[-700:])
                continue
            middle = self.median_s(result, steps)
            counts = {c: result["counts"].get(c) for c in counters}
            self.add(f"knob {name}", True, f"{middle * 1e3:.3f} ms a step, "
                     f"{batch / middle:.0f} samples/s; {counts}", ms=middle * 1e3, counts=counts)

    def profile(self):
        """Kernel times, and how much of the time the device was busy (CUPTI)."""
        (job, _, steps), _ = self.jobs.knobs()
        with tempfile.TemporaryDirectory() as folder:
            result, text = self.train("profile", job, "cuda", steps, 40,
                                      ["--profile.dir=" + folder, "--profile.first_step=1"])
        self.keep("profile", text)
        told = [line for line in text.splitlines()
                if line.startswith(("device: busy", "no times of the device"))]
        return self.add("profile", result is not None and "(device)" in text,
                        "\n".join(told) if result else text)

    def op_bench(self, limit, only=""):
        program, name = os.path.join(self.root, "tests", "op_bench"), f"op_bench {only}".strip()
        if not os.path.exists(program):
            return self.add(name, None, f"no {program}")
        code, text = self.call([program, "--place=cuda", "--time_ms=4", "--filter=" + only], limit)
        self.keep(name, text)
        wrong = [line for line in text.splitlines() if "WRONG" in line]
        told = text.splitlines() if only else [f"{len(text.splitlines())} rows in logs.txt"]
        return self.add(name, code == 0 and not wrong,
                        "\n".join([f"exit code {code}", *told[:40], *wrong[:20]]))

    def items(self):
        """Name and step, the most telling first: what the time does not suffice for is last."""
        models = ["--gtest_filter=CudaModels.*"] if self.small else []
        items = [("gpu_models_test",
                  lambda: self.gtest("gpu_models_test", "gpu_models_test", 30, *models))]
        for program in ("gpu_nccl_abi_test", "gpu_cupti_abi_test"):
            if os.path.exists(os.path.join(self.root, "tests", program)):
                items.append((program, lambda program=program: self.gtest(program, program, 20)))
        for parts in [["Loss"]] if self.small else KERNELS + [[]]:
            items.append((kernels_name(parts), lambda parts=parts: self.kernels(parts)))
        items += [(f"losses of {row[0]}", lambda row=row: self.losses(*row))
                  for row in self.jobs.losses()]
        # The faster one of the two determines about a third of a ResNet step.
        if not self.small:
            items.append(("op_bench of batch norm", lambda: self.op_bench(40, "batch_norm")))
        items += [("AMP scale", self.amp), ("the guide's resnet50", self.guide_job)]
        speeds = self.jobs.speeds()
        items += [(row[0], lambda row=row: self.speed(*row)) for row in speeds]
        # Compilation takes long.
        compiled = [(f"PyTorch compile: {row[0]}",
                     lambda row=row: self.peer(row[0], row[4], "compile", 90))
                    for row in speeds if row[4]]
        return items + [
            ("deepfm with a pserver", self.servers), ("NCCL", self.nccl),
            ("knobs", self.knobs), ("profile", self.profile), *compiled[:1],
            ("compute-sanitizer", self.sanitizer), *compiled[1:],
            ("op_bench", lambda: self.op_bench(min(90, self.left() - 5)))]

    def keep_done(self, before):
        """Takes over what an earlier run of the same commit on the same device has done."""
        # Another machine with such a card may have another driver.
        kind = [str(report.get("device")).split(",", maxsplit=1)[0] for report in (before, self.report)]
        same = before.get("commit") == self.report.get("commit") and kind[0] == kind[1]
        if not same:
            return self.add("resumed", None, "the report is of another commit or device")
        for name, steps in before["done"].items():
            self.report["done"][name] = steps
            self.report["steps"] += steps
            self.speeds.update({step["name"]: step["samples_per_s"] for step in steps
                                if "samples_per_s" in step})
        return self.write()

    def one(self, name, step):
        """An item of the list; what goes wrong in it is not the others'."""
        first = len(self.report["steps"])
        self.programs.late = False
        try:
            step()
        except Exception:  # pylint: disable=broad-except
            self.add(name, False, traceback.format_exc()[-1500:])
        added = self.report["steps"][first:]
        if self.left() <= 0:
            return
        if self.programs.late:
            self.report["late"].append(name)
        elif all(one["text"] != TIME_IS_UP for one in added):
            self.report["done"][name] = added
        self.write()

    def run(self, before):
        if not self.machine():
            self.add("all others", None, "there is no device")
            return 3
        if before is not None:
            self.keep_done(before)
        was_late = (before or {}).get("late", [])  # last, because they may be late again
        for name, step in sorted(self.items(), key=lambda item: item[0] in was_late):
            if name in self.report["done"]:
                continue
            if self.left() < 15:
                self.add(name, None, TIME_IS_UP)
                continue
            self.one(name, step)
        for name, why in gpu_jobs.NOT_BUILT:
            self.add(name, None, why)
        return 1 if any(step["ok"] is False for step in self.report["steps"]) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, help="folder with bin/, tests/ and lib/")
    parser.add_argument("--out", required=True, help="folder of the report")
    parser.add_argument("--small", action="store_true",
                        help="jobs as small as they go: for a run of the list itself")
    parser.add_argument("--resume", help="gpu.json of an earlier run: what it has done is kept")
    given = parser.parse_args()
    before = None
    if given.resume:
        with open(given.resume, encoding="utf-8") as file:
            before = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        jobs = gpu_jobs.Jobs(folder, given.small)
        code = GpuList(os.path.abspath(given.root), given.out, jobs, given.small).run(before)
    with open(os.path.join(given.out, "gpu.md"), encoding="utf-8") as file:
        print(file.read())
    return code


if __name__ == "__main__":
    sys.exit(main())
