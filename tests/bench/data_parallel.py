"""How much of two processes' speed is left when they train one model: the step of two processes
that know nothing of each other against that of two ranks in collective mode, a thread each."""

import collections
import os
import resource
import statistics
import tempfile

from jobs import read_json, run_job, run_together

THREADS, RANKS = 1, 2
WARM_SHARE = 0.2  # share of the steps that is not counted

JOB = """
name: "data_parallel"
model {{ zoo: "{zoo}" {args} arg {{ name: "classes" value: "10" }} }}
data {{
  format: "synthetic"
  synthetic {{ {image} classes: 10 samples: {samples} test_samples: 1 }}
}}
optimizer {{ type: "momentum" learning_rate: 0.01 }}
batch_size: {batch}
threads: {threads}
epochs: 1000
steps_max: {steps}
eval_every_epochs: 0
"""


class Network:
    """A job of `batch` samples a step on each rank; `goal`: percent of the speed that stays."""

    def __init__(self, zoo, image, batch, steps, goal, **args):
        self.goal = goal
        given = {"image": ",".join(map(str, image)), **args}
        self.job = JOB.format(
            zoo=zoo, batch=batch, threads=THREADS, steps=steps, samples=4 * RANKS * batch,
            args=" ".join(f'arg {{ name: "{n}" value: "{v}" }}' for n, v in given.items()),
            image=" ".join(f"image: {n}" for n in image))


NETWORKS = {
    "mlp": Network("mlp", (1, 32, 64), 64, 60, 92, hidden="2048,2048,2048"),  # 12.6 M parameters
    "resnet18_cifar": Network("resnet18", (3, 32, 32), 32, 24, 95, stem=3),
    "lenet": Network("lenet", (1, 28, 28), 64, 1500, 90),
}


def _step_seconds(result):
    """The median step of a run's history, behind the first ones."""
    history = result["history"]
    each = [s / n for s, n in zip(history["seconds"], history["steps"])]
    return statistics.median(each[int(len(each) * WARM_SHARE):])


def round_of(network, bin_dir):
    """(seconds of a step of two processes alone, of two ranks together)."""
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        job = os.path.join(folder, "job.pbtxt")
        with open(job, "w", encoding="utf-8") as file:
            file.write(network.job)
        results = [os.path.join(folder, f"alone{i}.json") for i in range(RANKS)]
        trainer = os.path.join(bin_dir, "tandem-trainer")
        run_together([[trainer, f"--job_file={job}", f"--result_json={path}"]
                      for path in results], folder)
        alone = statistics.mean(_step_seconds(read_json(path)) for path in results)
        together = run_job(bin_dir, ["--mode=collective", f"--nproc={RANKS}"], job, folder)
        return alone, _step_seconds(together)


# The figures of one run of two ranks: seconds of a step, processor seconds of all processes, and the
# bytes that both ranks sent in allreduces, in GB.
TlsRound = collections.namedtuple("TlsRound", "step_s cpu_s gigabytes")


def tls_round(network, bin_dir, launch):
    """A TlsRound of two ranks over TCP; `launch`: flags of tandemrun."""
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        job = os.path.join(folder, "job.pbtxt")
        with open(job, "w", encoding="utf-8") as file:
            file.write(network.job)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = run_job(bin_dir, ["--mode=collective", f"--nproc={RANKS}", *launch], job, folder,
                         ["--collective_transport=Tcp"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    return TlsRound(_step_seconds(result), cpu, RANKS * result["counts"]["comm_bytes"] / 1e9)


def peer_round(python, folder):
    """The same of PyTorch's DistributedDataParallel over Gloo, for the mlp."""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, "ddp.json")
    run_together([[python, os.path.join(here, "peer_ddp.py"), f"--out={path}"]], folder)
    result = read_json(path)
    return result["alone"], result["together"]
