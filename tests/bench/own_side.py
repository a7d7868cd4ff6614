"""Tandem's side of the figures that tandem-figures measures by itself, for --regress. The peers of
these figures are not run, except for those that tandem-figures measures in the same process."""

import contextlib
import dataclasses
import tempfile
from typing import Optional

import figures_ranks
from figures_pserver import redis
from figures_readers import TEXT_FORMATS
from runner import Failed, run_json

WRITE_FILES_S = 0.1  # seconds of a run that only writes the files of a reader


@dataclasses.dataclass
class Own:
    """A run of tandem-figures: its threads, and the fields of its output that are rows."""
    threads: int
    fields: dict  # label of a row -> name of the field, or (name, index) for a list
    lower: bool = False  # lower is better
    scale: float = 1  # from the field's unit to the figure's
    files: bool = False  # the first run writes files, which all runs of a side read
    redis: Optional[str] = None  # "unix" or "tcp": the program connects to a Redis


def one(threads, field, **more):
    return Own(threads, {"": field}, **more)


def sizes(ranks, field, labels, skip=0):
    return Own(ranks, {label: (field, i) for i, label in enumerate(labels) if i >= skip},
               lower=True)


def training(per_sample=1):
    return one(2, "samples_per_s", scale=per_sample)


OWN = {
    "op_overhead": one(1, "ns_per_op", lower=True),
    "mlp40_step": one(1, "us_per_step", lower=True),
    "lenet_train": training(),
    "deepfm_dense": training(),
    "transformer_lm": training(128),
    "transformer_lm_bf16": training(128),
    "bert_base": training(128),
    "bert_base_512": training(512),
    "resnet18_cifar": training(),
    "resnet18_cifar_bf16": training(),
    "resnet50_f32": training(),
    "resnet50_bf16": training(),
    "ps_dense_tcp": one(1, "push_mb_per_s"),
    "ps_dense_fast": one(1, "push_mb_per_s"),
    "ps_pull_fast": one(1, "pull_mb_per_s"),
    "ps_sparse_pull": one(1, "pull_rows_per_s"),
    "ps_vs_stores": one(1, "pull_rows_per_s", redis="unix"),
    "lookup_vs_redis": one(1, "resp_mget_rows_per_s", redis="tcp"),
    "predict_deepfm": one(2, "local_call_64_requests_per_s"),
    "ps_exactly_once": one(1, "push_mb_per_s"),
    "ps_logged": one(1, "logged_mb_per_s"),
    "ps_quorum": one(1, "quorum_mb_per_s"),
    "ps_follow": one(1, "followed_mb_per_s"),
    "stream_lag": one(1, "half_load_p99_ms", lower=True, scale=1e-3),
    "ps_changes": one(1, "followed_rows_per_s"),
    "ps_snapshot": one(1, "cut_mb_per_s"),
    "reader_text": Own(1, {name: name + "_mb_per_s" for name in TEXT_FORMATS}, files=True),
    "reader_jpeg": one(1, "images_per_s", files=True),
    "allreduce_shm": sizes(2, "arena_us", figures_ranks.ALLREDUCE_SIZES, skip=1),
    "allreduce_tcp": sizes(2, "us", figures_ranks.ALLREDUCE_SIZES),
    "hierarchical_hosts": sizes(1, "shards_us", figures_ranks.HOST_SIZES),
}

WHOLE_JOBS = "it runs whole jobs, whose programs --regress does not build"
REFUSED = {
    "ps_recovery": "it restarts tandem-pserver, which --regress does not build",
    "deepfm_end_to_end": WHOLE_JOBS,
    "dp_efficiency": WHOLE_JOBS,
    "hybrid_deepfm": WHOLE_JOBS,
    "data_wait": WHOLE_JOBS,
    "job_start": WHOLE_JOBS,
    "idle_cpu": WHOLE_JOBS,
    "collective_tls": WHOLE_JOBS,
    "tls_overhead": WHOLE_JOBS,
}


def values_of(own, result, what):
    """{label: value} of the rows in the output of a run."""
    found = {}
    for label, field in own.fields.items():
        name, index = field if isinstance(field, tuple) else (field, None)
        try:
            value = result[name] if index is None else result[name][index]
        except (KeyError, IndexError) as error:
            raise Failed(f"{what} reports no {name}\nhint: choose a base whose tandem-figures "
                         "reports it, or leave the figure out") from error
        if not value > 0:
            raise Failed(f"{what} reports {name} {value}, expected more than 0\n"
                         "hint: give a larger --seconds")
        found[label] = value * own.scale
    return found


class Side:
    """One build of tandem-figures that measures one figure, once for each call of run."""

    def __init__(self, program, what, build_dir, seconds):
        self.program, self.what = program, what
        self.build_dir = build_dir  # the directory where a Redis is installed
        self.seconds = seconds
        self.files = None  # the directory with the files of a reader

    def _json(self, name, own, seconds, folder):
        more = ["--export_dir=" + folder] if folder else []
        return run_json([self.program, name, f"--threads={own.threads}", f"--seconds={seconds}",
                         *more], what=f"tandem-figures {name} ({self.what})")

    def write_files(self, name, own, stack):
        """Writes the files that the runs read. `stack` removes them."""
        if own.files:
            self.files = stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-bench-"))
            self._json(name, own, WRITE_FILES_S, self.files)

    def run(self, name, own):
        """{label: value} of one run."""
        with contextlib.ExitStack() as stack:
            folder = self.files
            if own.redis:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-bench-"))
                stack.enter_context(redis(self.build_dir, folder, tcp=own.redis == "tcp"))
            result = self._json(name, own, self.seconds, folder)
        return values_of(own, result, f"tandem-figures {name} ({self.what})")
