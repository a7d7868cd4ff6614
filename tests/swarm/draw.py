"""Draws combinations of settings by seed. The same seed gives the same combination as long as the
settings of this version are the same."""

import dataclasses
import json
import random

import models
import settings


@dataclasses.dataclass
class Combination:
    """One job. All values are texts as in a job file."""
    model: str = "softmax"
    arguments: dict = dataclasses.field(default_factory=dict)  # of the model
    mode: str = "local"
    ranks: int = 1  # trainers
    servers: int = 0
    launch: dict = dataclasses.field(default_factory=dict)  # flags of tandemrun; "": without value
    flags: dict = dataclasses.field(default_factory=dict)  # flags of tandem-trainer
    optimizer: dict = dataclasses.field(default_factory=dict)
    job: dict = dataclasses.field(default_factory=dict)  # other fields of the job
    knobs: dict = dataclasses.field(default_factory=dict)
    as_flags: bool = False  # knobs are flags of the trainer, not in the job file

    def to_json(self):
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text):
        return Combination(**json.loads(text))

    def copy(self, **changes):
        other = Combination.from_json(self.to_json())
        return dataclasses.replace(other, **changes)


# Fields that each optimizer uses besides those of all optimizers.
OPTIMIZERS = {
    "sgd": [], "momentum": ["momentum", "use_nesterov"], "adam": ["beta1", "beta2", "lazy_mode"],
    "adamw": ["beta1", "weight_decay"], "adagrad": ["initial_accumulator", "epsilon"],
    "decayed_adagrad": ["decay"], "adamax": ["beta1"], "rmsprop": ["decay", "centered", "momentum"],
    "ftrl": ["l1", "l2"], "lars_momentum": ["lars_coeff", "weight_decay"],
    "lamb": ["beta1", "weight_decay"],
}
NEEDED_OPTIMIZER = {"dgc": "momentum", "lars": "momentum", "lamb": "adam"}
FOR_ALL_OPTIMIZERS = ["clip_norm", "clip_global_norm", "l1_decay", "l2_decay"]
NUMBERS = {"momentum": [0, 0.5, 0.9], "beta1": [0, 0.5, 0.9], "beta2": [0.9, 0.999],
           "decay": [0.5, 0.9, 0.95], "clip_norm": [0.1, 1, 100], "clip_global_norm": [0.1, 1, 100]}
SCHEDULES = ["kind: PIECEWISE boundary: [2, 5] value: [1, 0.5, 0.25]",
             "kind: EXPONENTIAL decay_steps: 4 decay_rate: 0.5", "kind: EXPONENTIAL staircase: true",
             "kind: COSINE", "kind: POLYNOMIAL power: 2 end_factor: 0.1", "warmup_steps: 3",
             "kind: COSINE decay_steps: 20 warmup_steps: 2"]

JOB_FIELDS = {
    "data.shuffle": ["false"], "data.remainder": ["DROP", "JOIN"], "data.queue_capacity": ["1", "64"],
    "data.train_samples_max": ["40", "17", "16"], "data.reader_threads": ["1", "3"],
    "data.max_bad_records": ["5"], "seed": ["2", "18446744073709551615"],
    "eval_every_epochs": ["0", "2"], "log_every_steps": ["1", "7"], "threads": ["0", "2", "3"],
    "checkpoint.every_steps": ["1", "3"], "checkpoint.keep": ["1", "2"],
    "profile.dir": ['"profile"'], "profile.first_step": ["0", "2"], "profile.steps": ["1", "100"],
    "profile.op_detail": ["true"], "model.sections": ["1", "2", "3"], "loss_gradient": ["0.5", "1"],
    "place": ['"cuda"', '"tpu"'], "verify_replay": ["1", "3"],
    "param_checksums": ["1", "3"],
}
LAUNCH_FLAGS = {  # modes -> flags with values
    "pserver hybrid": {"--pserver_data_dir": ["data"], "--durability": ["logged", "replayable", "none"],
                       "--tls": [""], "--audit": [""], "--snapshot_keep": ["last=1"],
                       "--log_keep_mb": ["1"], "--keep_pushes_mb": ["1", "64"], "--standbys": ["1", "2"],
                       "--replication": ["async", "quorum"], "--replicas": ["1"],
                       "--max_restarts": ["1"], "--pserver_place": ["cpu", "cuda"]},
    "collective": {"--rendezvous": ["file://RENDEZVOUS"], "--tls": [""], "--max_restarts": ["1"]},
    "hybrid": {"--heter_workers": ["1", "2"]},
}
NEEDED_FLAGS = {  # flag -> another that it needs, with values; in this order
    "--replication": ("--standbys", ["1"]), "--log_keep_mb": ("--durability", ["logged"]),
    "--keep_pushes_mb": ("--durability", ["replayable"]),
    "--standbys": ("--pserver_data_dir", ["data"]), "--replicas": ("--pserver_data_dir", ["data"]),
    "--durability": ("--pserver_data_dir", ["data"]), "--snapshot_keep": ("--pserver_data_dir", ["data"]),
}
TRAINER_FLAGS = {"--strategy_out": ["strategy.out"], "--tensorboard_dir": ["board"],
                 "--log_format": ["bar", "plain", "fleet", "json"]}


class Generator:
    """`variables`: model -> names of variables that its operators write."""

    def __init__(self, bin_folder, source, variables):
        self.variables = variables
        self.knobs = settings.knobs(bin_folder)
        self.switches = sorted({knob.group for knob in self.knobs} &
                               {knob.name for knob in self.knobs})
        self.optimizer_fields = settings.optimizer_fields(source)

    def draw(self, seed):
        rng = random.Random(seed)
        one = Combination(mode=rng.choice(["local", "pserver", "collective", "collective", "pserver",
                                           "hybrid"]))
        fitting = [m for m in models.MODELS if m.tables or one.mode != "hybrid" or rng.random() < 0.03]
        model = rng.choices(fitting, [m.weight for m in fitting])[0]
        one.model = model.name
        one.arguments = {name: rng.choice(values) for name, values in model.arguments.items()
                         if rng.random() < 0.6}
        one.arguments = {name: value for name, value in one.arguments.items() if value}
        if one.arguments.get("distributed") != "1" and rng.random() < 0.95:
            one.arguments.pop("table_rules", None)
        if one.mode == "hybrid" and rng.random() < 0.9:
            one.arguments["sparse"] = "1"
        if one.mode == "collective":
            one.ranks = rng.choice([1, 2, 2, 2, 2, 3, 4])
        elif one.mode != "local":
            one.ranks, one.servers = rng.choice([1, 1, 2, 2, 2, 3]), rng.choice([1, 1, 2, 3])
        self._draw_knobs(one, rng, self.variables[one.model])
        self._draw_optimizer(one, rng)
        self._draw_fields(one, rng)
        one.as_flags = rng.random() < 0.3
        return one

    def _draw_optimizer(self, one, rng):
        kind = rng.choice(sorted(OPTIMIZERS) + ["sgd", "momentum", "adam"])
        needed = [kind for switch, kind in NEEDED_OPTIMIZER.items() if switch in one.knobs]
        if needed and rng.random() < 0.9:
            kind = needed[0]
        one.optimizer = {"type": f'"{kind}"', "learning_rate": rng.choice(["0.01", "0.003"])}
        fields = [name for name in OPTIMIZERS[kind] if rng.random() < 0.4]
        fields += [name for name in FOR_ALL_OPTIMIZERS if rng.random() < 0.08]
        if rng.random() < 0.03:
            fields.append(rng.choice(sorted(self.optimizer_fields)))
        for name in fields:
            if self.optimizer_fields[name] == "bool":
                one.optimizer[name] = rng.choice(["true", "true", "false"])
            else:
                one.optimizer[name] = str(rng.choice(NUMBERS.get(name, [0, 0.001, 0.01, 0.1])))
        if rng.random() < 0.06:
            one.optimizer.update(clip_min="-0.1", clip_max="0.1")
        if rng.random() < 0.15:
            one.optimizer["schedule"] = "{ " + rng.choice(SCHEDULES) + " }"

    def _draw_fields(self, one, rng):
        if rng.random() < 0.85:
            one.job["global_batch_size"] = rng.choice(["16", "16", "16", "12", "17", "4", "1"])
        else:
            one.job["batch_size"] = rng.choice(["8", "5", "1"])
        one.job["threads"] = "1"
        for name, values in JOB_FIELDS.items():
            if rng.random() < (0.01 if name in ("place", "loss_gradient") else 0.05):
                one.job[name] = rng.choice(values)
        for names, flags in LAUNCH_FLAGS.items():
            if one.mode not in names.split():
                continue
            for name, values in flags.items():
                if rng.random() < 0.06:
                    one.launch[name] = rng.choice(values)
        for name, (needed, values) in NEEDED_FLAGS.items():
            if name in one.launch and rng.random() < 0.9:
                one.launch.setdefault(needed, rng.choice(values))
        if one.mode == "collective" and one.ranks > 1 and rng.random() < 0.06:
            one.launch["--elastic"] = "1"  # tandemrun --nproc=1:RANKS
            one.knobs["elastic"] = "true"
        for name, values in TRAINER_FLAGS.items():
            if rng.random() < 0.04:
                one.flags[name] = rng.choice(values)

    def _draw_knobs(self, one, rng, variables):
        """Draws some switches with their settings, then single knobs."""
        by_name = {knob.name: knob for knob in self.knobs}
        fitting = [knob for knob in self.knobs if knob.fits(one.mode)]
        chosen = []
        for _ in range(rng.choice([0, 0, 0, 1, 1, 1, 2])):
            names = [s for s in self.switches if by_name[s].fits(one.mode)]
            switch = rng.choice(names)
            one.knobs[switch] = "true"
            own = [knob for knob in fitting if knob.group == switch]
            chosen += rng.sample(own, min(len(own), rng.randint(0, 2)))
        for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 6])):
            chosen.append(rng.choice(fitting if rng.random() < 0.96 else self.knobs))
        for knob in chosen:
            one.knobs[knob.name] = settings.value(knob, rng, variables)
