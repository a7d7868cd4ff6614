"""Whole jobs against themselves: how long steps wait for data, and what TLS costs."""

import os
import statistics
import tempfile

import machine
from jobs import run_job
from runner import ROOT, Runner, compare

EXAMPLES = os.path.join(ROOT, "deploy", "examples")
LIST = "list.txt"  # the list of the images that tandem-figures writes

RESNET18 = """
name: "resnet18_images"
model {{ zoo: "resnet18" arg {{ name: "image" value: "3,64,64" }} arg {{ name: "classes" value: "1000" }} }}
data {{
  format: "images" dir: "{data}"
  images {{ train_list: "{list}" test_list: "{list}" size: 64 resize: 72 }}
}}
optimizer {{ type: "momentum" learning_rate: 0.01 }}
"""


def job_args(steps, *more):
    """Behind the job: nothing but steps, as many as they take for some seconds."""
    return ["--epochs=1000000", "--eval_every_epochs=0", "--checkpoint.dir=",
            f"--steps_max={steps}", "--threads=2", *more]


class JobsFigures(Runner):
    def wait_share(self, job, args):
        """(percent of the time of steps that they wait for data, samples a second)."""
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            result = run_job(self.bin_dir, ["--mode=local"], job, folder, args)
        wait = result["data_wait_seconds"]
        return 100 * wait / (sum(result["history"]["seconds"]) + wait), result["images_per_s"]

    def data_wait(self):
        """Data as they are on disk: idx files, JPEG images of 500x375, click logs as text."""
        work, shares, speeds = machine.OtherWork(), {}, {}
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            for figure in ("reader_jpeg", "reader_text"):
                self.ours(figure, 1, 0.1, "--export_dir=" + data)
            resnet18 = os.path.join(data, "resnet18.pbtxt")
            with open(resnet18, "w", encoding="utf-8") as file:
                file.write(RESNET18.format(data=data, list=LIST))
            steps = max(1, int(100 * self.args.seconds))
            jobs = {"lenet": (os.path.join(EXAMPLES, "lenet.pbtxt"),
                              job_args(5 * steps, "--global_batch_size=128")),
                    "resnet18": (resnet18, job_args(max(1, steps // 10), "--global_batch_size=32")),
                    "deepfm": (os.path.join(EXAMPLES, "deepfm_criteo.pbtxt"),
                               job_args(steps // 2, "--global_batch_size=512", "--data.dir=" + data,
                                        "--data.criteo.train_file=criteo.tsv"))}
            for _ in self.rounds("data_wait"):
                for name, (job, args) in jobs.items():
                    share, speed = self.wait_share(job, args)
                    shares.setdefault(name, []).append(share)
                    speeds.setdefault(name, []).append(speed)
        worst = max(shares, key=lambda name: statistics.median(shares[name]))
        out = compare([max(share, 1e-3) for share in shares[worst]], [1.0], 0, lower_is_better=True)
        out.update(peer_name="the goal itself: 1 %", limit_name="none", worst=worst,
                   percent={name: round(statistics.median(s), 3) for name, s in shares.items()},
                   samples_per_s={name: round(statistics.median(s)) for name, s in speeds.items()},
                   others_share=round(work.share(), 3))
        return out

    def tls_overhead(self):
        """LeNet with a server and a trainer over gRPC, where every step sends and fetches all."""
        work, speeds = machine.OtherWork(), {"plain": [], "tls": []}
        job = os.path.join(EXAMPLES, "lenet.pbtxt")
        args = job_args(max(1, int(300 * self.args.seconds)), "--pserver_transport=grpc")
        for _ in self.rounds("tls_overhead"):
            for name, more in (("plain", []), ("tls", ["--tls"])):
                with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
                    result = run_job(self.bin_dir, ["--servers=1", "--workers=1", *more], job,
                                     folder, args)
                speeds[name].append(result["images_per_s"])
        costs = [100 * (1 - tls / plain) for tls, plain in zip(speeds["tls"], speeds["plain"])]
        out = compare([max(cost, 0.1) for cost in costs], [25.0], 0, lower_is_better=True)
        out.update(peer_name="the goal itself: 25 %", limit_name="none",
                   images_per_s={name: round(statistics.median(s)) for name, s in speeds.items()},
                   others_share=round(work.share(), 3))
        return out
