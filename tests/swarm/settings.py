"""Every setting that a combination may have, with values to try. Knobs come from `tandem knobs list`,
fields of the optimizer from proto/job.proto, and models from `tandem-trainer --list_models`. A new
knob is therefore tried without a change here."""

import dataclasses
import json
import os
import re
import subprocess


@dataclasses.dataclass(frozen=True)
class Knob:
    name: str
    type: str  # bool, int32, int64, double, string, "list of ..." or values separated by "|"
    default: str
    low: float  # smallest allowed value; None: none
    high: float
    modes: tuple  # modes in which the knob has a meaning; empty: all

    def fits(self, mode):
        return not self.modes or mode in self.modes

    @property
    def group(self):
        """The switch whose settings the knob belongs to: dgc for dgc_configs.sparsity."""
        head, dot, _ = self.name.partition(".")
        return head[:-len("_configs")] if dot and head.endswith("_configs") else ""


def knobs(bin_folder):
    text = subprocess.run([os.path.join(bin_folder, "tandem"), "knobs", "list", "--output=json"],
                          capture_output=True, text=True, check=True).stdout
    found = []
    for row in json.loads(text):
        low, high = map(float, row["range"].split("..")) if row["range"] else (None, None)
        found.append(Knob(row["knob"], row["type"], row["default"], low, high, tuple(row["modes"])))
    return [knob for knob in found if knob.name != "mode"]


def zoo(bin_folder):
    """Names of the models of the zoo."""
    text = subprocess.run([os.path.join(bin_folder, "tandem-trainer"), "--list_models"],
                          capture_output=True, text=True, check=True).stdout
    return re.findall(r"^(\w+):", text, re.M)


def optimizer_fields(source):
    """Names and types of the numbers and switches of OptimizerConfig."""
    with open(os.path.join(source, "proto", "job.proto"), encoding="utf-8") as file:
        body = re.search(r"message OptimizerConfig \{(.*?)^\}", file.read(), re.S | re.M).group(1)
    return {name: kind for kind, name in re.findall(r"optional (float|bool) (\w+) =", body)}


# Values of texts and lists. A file name is relative to the job's directory.
TEXTS = {
    "a_sync_configs.heter_worker_device_guard": ["cpu", "gpu", "tpu"],
    "localsgd_configs.outer_optimizer": ["none", "sgd", "momentum", "nesterov", "adam"],
    "conv_search_cache": ["", "algorithms.txt", "no/such/directory/algorithms.txt"],
    "compilation_cache_dir": ["", "code"],
    "build_strategy.debug_graphviz_path": ["graph", "no/such/directory/graph"],
    "build_strategy.mkldnn_enabled_op_types": ["fc", "conv2d", "softmax", "relu", "convolution"],
    "amp_configs.custom_white_list": ["fc", "softmax", "mean", "nonsense"],
    "amp_configs.custom_black_list": ["fc", "conv2d", "relu", "nonsense"],
    "amp_configs.custom_black_varnames": ["label", "img", "nonsense"],
    "lars_configs.exclude_from_weight_decay": [".b", ""],
    "lamb_configs.exclude_from_weight_decay": [".b", ""],
    "runtime_flags.rocksdb_path": ["rows", "deep/rows"],
    "runtime_flags.pe_profile_fname": ["samples", "no/such/directory/samples"],
    "runtime_flags.nccl_socket_ifname": ["lo"],
    "runtime_flags.nccl_debug": ["WARN", "LOUD"],
    "runtime_flags.nccl_launch_mode": ["GROUP", "PARALLEL"],
}

# Ranges within the allowed ones, where the rest would only make a job wait as it is told to.
NARROW = {
    "a_sync_configs.send_wait_times": (0, 3),
    "runtime_flags.rpc_deadline_ms": (5000, None),
    "runtime_flags.worker_update_interval_secs": (30, None),
    "localsgd_configs.k_steps": (1, 16),
    "dgc_configs.rampup_step": (1, 16),
    "dgc_configs.rampup_begin_step": (0, 16),
    "gradient_merge_configs.k_steps": (1, 8),
    "batch_merge_repeats": (1, 16),
    "execution_strategy.cpu_num": (1, 8),
    "execution_strategy.num_threads": (0, 16),
    "logical_shards": (1, 64),
    "lars_configs.lars_coeff": (0, 1),
    "lars_configs.lars_weight_decay": (0, 1),
    "lamb_configs.lamb_weight_decay": (0, 1),
    "localsgd_configs.outer_learning_rate": (0, 1),
    "runtime_flags.rpc_retry_times": (0, 10),
}


def value(knob, rng, variables):
    """A value for the job file. A twentieth of the numbers is outside the allowed range, or at the
    end of the whole range. `variables`: names of the model's variables."""
    if knob.type == "bool":
        usual = knob.default == "true"
        return "true" if (rng.random() < 0.85) != usual else "false"
    if "|" in knob.type:
        return rng.choice(knob.type.split("|"))
    listed = knob.type.startswith("list of ")
    kind = knob.type[len("list of "):] if listed else knob.type
    if kind == "string":
        choices = list(TEXTS.get(knob.name, ["x"]))
        if knob.name == "recompute_configs.checkpoints":
            choices = list(variables) or ["x"]
        values = [f'"{rng.choice(choices)}"' for _ in range(rng.randint(1, 2) if listed else 1)]
    else:
        values = [_number(knob, kind, rng) for _ in range(rng.randint(1, 3) if listed else 1)]
    return "[" + ", ".join(values) + "]" if listed else values[0]


def _number(knob, kind, rng):
    whole = kind.startswith("int")
    low, high = knob.low, knob.high
    if low is None:
        low, high = 0, 1000
    if rng.random() < 0.05:
        return _text(rng.choice([low - 1, high + 1]), whole)
    narrow = NARROW.get(knob.name, (None, None))
    low = low if narrow[0] is None else narrow[0]
    high = high if narrow[1] is None else narrow[1]
    choices = [low, low, low + 1, 0, 1, 2, 2, 3, 4, 5, 7, 8, 12, 16, 50, 1000, high]
    if not whole:
        choices += [0.001, 0.01, 0.1, 0.5, 0.5, 0.75, 0.9, 1.5]
    if knob.default:
        choices.append(float(knob.default))
    return _text(rng.choice([c for c in choices if low <= c <= high]), whole)


def _text(number, whole):
    return str(int(number)) if whole else repr(float(number))
