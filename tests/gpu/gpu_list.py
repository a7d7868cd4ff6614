#!/usr/bin/env python3
"""Runs the GPU list over programs that are built (see run.sh) and writes gpu.json and gpu.md.

The report is written behind every step, so that one which is stopped leaves what it has."""

import argparse
import glob
import json
import math
import os
import site
import subprocess
import sys
import tempfile
import time

BUDGET_S = 540
SYNTHETIC = ('data {{ format: "synthetic" synthetic {{ image: {c} image: {s} image: {s} '
             "classes: {classes} samples: {samples} test_samples: {batch} }} }}\n")


def image_job(name, channels, size, classes, batch, steps, args="", more=""):
    return (f'name: "{name}"\nmodel {{ zoo: "{name}" {args} }}\n'
            + SYNTHETIC.format(c=channels, s=size, classes=classes, samples=batch * steps,
                               batch=batch)
            + 'optimizer { type: "momentum" learning_rate: 0.01 }\n'
            + f"global_batch_size: {batch}\nseed: 1\neval_every_epochs: 0\nlog_every_steps: 1\n"
            + more)


RESNET_ARGS = ('arg { name: "image" value: "3,32,32" } arg { name: "stem" value: "3" } '
               'arg { name: "classes" value: "10" }')
IMAGENET_ARGS = 'arg { name: "image" value: "3,224,224" } arg { name: "classes" value: "1000" }'
AMP = "strategy { amp: true amp_configs { amp_dtype: bf16 } }\n"

# Losses of the same job on CPU and device: name, job, steps, largest difference of a loss.
# Rounding differs in products alone; it grows with the steps.
LOSSES = [
    ("lenet", image_job("lenet", 1, 28, 10, 64, 100), 100, 2e-3),
    ("resnet18", image_job("resnet18", 3, 32, 10, 32, 10, RESNET_ARGS), 10, 2e-2),
]
# Samples a second on the device: name, job, batch, steps.
SPEEDS = [
    ("lenet b64", image_job("lenet", 1, 28, 10, 64, 200), 64, 200),
    ("resnet18 32x32 b128", image_job("resnet18", 3, 32, 10, 128, 60, RESNET_ARGS), 128, 60),
    ("resnet50 224x224 b64", image_job("resnet50", 3, 224, 1000, 64, 30, IMAGENET_ARGS), 64, 30),
    ("resnet50 224x224 b64 amp bf16",
     image_job("resnet50", 3, 224, 1000, 64, 30, IMAGENET_ARGS, AMP), 64, 30),
]


# Communication on one card: name, ranks, flags.
NCCL = [
    ("one rank", 1, []),
    ("two ranks", 2, []),
    ("two ranks, three communicators", 2, ["--nccl_comm_num=3", "--sync_nccl_allreduce=false",
                                           "--fuse_all_reduce_ops=false"]),
    ("four ranks in groups of two", 4, ["--use_hierarchical_allreduce=true",
                                        "--hierarchical_allreduce_inter_nranks=2"]),
]


def cuda_library_folders():
    """Where CUDA's libraries are: its own folder, or those of Python packages."""
    folders = ["/usr/local/cuda/lib64"]
    sites = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    for place in sites:
        folders += glob.glob(os.path.join(place, "nvidia", "*", "lib"))
    return [f for f in dict.fromkeys(folders) if os.path.isdir(f)]


class GpuList:
    def __init__(self, root, out):
        self.root, self.out = root, out
        self.begin = time.monotonic()
        self.report = {"date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
                       "steps": []}
        libraries = [os.path.join(root, "lib")] + cuda_library_folders()
        self.env = dict(os.environ, TANDEM_BIN_DIR=os.path.join(root, "bin"),
                        TANDEM_SOURCE_DIR=root, OMP_WAIT_POLICY="passive",
                        LD_LIBRARY_PATH=":".join(libraries + [os.environ.get("LD_LIBRARY_PATH", "")]))

    def left(self):
        return BUDGET_S - (time.monotonic() - self.begin)

    def call(self, command, limit):
        """Exit code and output; 124 when the limit is up."""
        try:
            done = subprocess.run(command, env=self.env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace",
                                  timeout=max(1, min(limit, self.left())), check=False)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            text = late.stdout or b""
            return 124, text.decode(errors="replace") if isinstance(text, bytes) else text
        except OSError as error:
            return 127, str(error)

    def add(self, name, ok, text, **figures):
        """`ok`: True, False, or None for what did not run."""
        self.report["steps"].append({"name": name, "ok": ok, "text": text, **figures})
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

    def gtest(self, program, limit):
        output = os.path.join(self.out, program + ".json")
        code, text = self.call([os.path.join(self.root, "tests", program),
                                "--gtest_output=json:" + output], limit)
        with open(os.path.join(self.out, program + ".log"), "w", encoding="utf-8") as file:
            file.write(text[-8 << 20:])
        told = [line for line in text.splitlines()
                if " rows" in line or line.startswith("[  FAILED  ]") or "SKIPPED" in line]
        self.add(program, code == 0, "\n".join([f"exit code {code}"] + told[:40]))

    def train(self, name, job, place, steps, limit):
        """The result of a job, or None with the reason."""
        with tempfile.TemporaryDirectory() as folder:
            path, result = os.path.join(folder, "job.pbtxt"), os.path.join(folder, "result.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job)
            code, text = self.call([os.path.join(self.root, "bin", "tandem-trainer"),
                                    "--job_file=" + path, "--place=" + place,
                                    f"--steps_max={steps}", "--result_json=" + result], limit)
            if code != 0:
                return None, f"{name} on {place}: exit code {code}\n" + text[-1500:]
            with open(result, encoding="utf-8") as file:
                return json.load(file), ""

    def ranks(self, count, job, steps, flags, rendezvous):
        """The result of a collective job of `count` ranks on one card, or None with the reason.

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
                       "--fraction_of_gpu_memory_to_use=0.1", "--step_timeout_ms=20000",
                       "--result_json=" + result] + flags
            running = []
            for rank in range(count):
                env = dict(self.env, TANDEM_RANK=str(rank), TANDEM_SIZE=str(count),
                           TANDEM_RENDEZVOUS=rendezvous, TANDEM_SECRET_FILE=secret,
                           TANDEM_JOB="gpu-list", NCCL_HOSTID=f"tandem-{rank}",
                           NCCL_SOCKET_IFNAME="lo")
                running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE,
                                                stderr=subprocess.STDOUT, text=True))
            texts = []
            for process in running:
                try:
                    texts.append(process.communicate(timeout=max(1, min(90, self.left())))[0])
                except subprocess.TimeoutExpired:
                    process.kill()
                    texts.append(process.communicate()[0] + "\nkilled: it did not end")
            if any(process.returncode != 0 for process in running):
                return None, "\n".join(text[-1200:] for text in texts)
            with open(result, encoding="utf-8") as file:
                return json.load(file), ""

    def nccl(self):
        """One rank alone and several on one card against one process without communication."""
        _, job, steps, _ = LOSSES[0]
        steps = min(steps, 40)
        alone, why = self.train("lenet", job, "cuda", steps, 90)
        if alone is None:
            return self.add("NCCL", False, why)
        port = 29600
        for name, count, flags in NCCL:
            port += 1
            result, why = self.ranks(count, job, steps, flags, f"127.0.0.1:{port}")
            if result is None:
                self.add(f"NCCL: {name}", False, why)
                continue
            gap = abs(result["loss"] - alone["loss"])
            self.add(f"NCCL: {name}", gap <= 2e-3 and result["counts"]["comm"] > 0,
                     f"{count} ranks, loss {result['loss']:.6f}, of one process "
                     f"{alone['loss']:.6f}")
        return None

    def op_bench(self, limit):
        code, text = self.call([os.path.join(self.root, "tests", "op_bench"), "--place=cuda",
                                "--time_ms=6"], limit)
        with open(os.path.join(self.out, "op_bench.log"), "w", encoding="utf-8") as file:
            file.write(text)
        wrong = [line for line in text.splitlines() if "WRONG" in line]
        self.add("op_bench", code == 0 and not wrong,
                 "\n".join([f"exit code {code}, {len(text.splitlines())} rows in op_bench.log"]
                           + wrong[:20]))

    def losses(self, name, job, steps, tolerance):
        results = {}
        for place in ("cpu", "cuda"):
            results[place], why = self.train(name, job, place, steps, 120)
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

    def speed(self, name, job, batch, steps):
        result, why = self.train(name, job, "cuda", steps, 90)
        if result is None:
            return self.add(name, False, why)
        seconds = sorted(result["history"]["seconds"][steps // 4:])
        middle = seconds[len(seconds) // 2]
        return self.add(name, True, f"{batch / middle:.0f} samples/s, {middle * 1e3:.3f} ms a step",
                        samples_per_s=batch / middle)

    def run(self):
        if not self.machine():
            self.add("all others", None, "there is no device")
            return 3
        self.gtest("gpu_models_test", 60)
        if os.path.exists(os.path.join(self.root, "tests", "gpu_nccl_abi_test")):
            self.gtest("gpu_nccl_abi_test", 30)
        self.nccl()
        for row in LOSSES:
            self.losses(*row)
        self.gtest("gpu_kernels_test", 240)
        for row in SPEEDS:
            if self.left() < 20:
                self.add(row[0], None, "the time is up")
            else:
                self.speed(*row)
        self.op_bench(max(20, self.left() - 10))
        return 0 if all(step["ok"] for step in self.report["steps"]) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, help="folder with bin/, tests/ and lib/")
    parser.add_argument("--out", required=True, help="folder of the report")
    args = parser.parse_args()
    code = GpuList(os.path.abspath(args.root), args.out).run()
    with open(os.path.join(args.out, "gpu.md"), encoding="utf-8") as file:
        print(file.read())
    return code


if __name__ == "__main__":
    sys.exit(main())
