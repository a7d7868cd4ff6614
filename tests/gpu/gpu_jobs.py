"""The jobs of the GPU list (gpu_list.py): what is trained, how long, and beside what."""

import random

import gpu_images

SYNTHETIC = ('data {{ format: "synthetic" synthetic {{ image: {c} image: {s} image: {s} '
             "classes: {classes} samples: {samples} test_samples: {batch} }} }}\n")
CLICKS = """data {{ format: "csv" dir: "{folder}"
  csv {{ train_file: "clicks.csv" test_file: "clicks.csv"
        label_column: "click" positive_label: "1" negative_label: "0"
        column {{ name: "a" ids: 211 }} column {{ name: "b" ids: 5003 }}
        column {{ name: "c" ids: 1009 }} }} }}
"""
CLICK_ROWS = 211 + 5003 + 1009
WORDS = ('data {{ format: "text" dir: "{folder}" '
         'text {{ file: "words.txt" sequence: {sequence} predicted: {predicted} }} }}\n')

IMAGES = ('data {{ format: "images" dir: "{folder}" images {{ train_list: "images.txt" '
          'test_list: "images.txt" classes: {classes} size: {size} resize: {size} }} }}\n')
# Criteo's format: 39 ids per record.
CRITEO_IDS = 13 * 512 + 26 * 65536
CRITEO = ('data {{ format: "criteo" dir: "{folder}" criteo {{ train_file: "criteo.txt" '
          "test_share: 0.01 }} }}\n")


def args(**given):
    return " ".join(f'arg {{ name: "{name}" value: "{value}" }}' for name, value in given.items())


def job(model, data, batch, model_args="", more=""):
    return (f'name: "{model}"\nmodel {{ zoo: "{model}" {model_args} }}\n{data}'
            'optimizer { type: "momentum" learning_rate: 0.01 }\n'
            f"global_batch_size: {batch}\nseed: 1\neval_every_epochs: 0\nlog_every_steps: 1\n{more}")


def image_job(model, channels, size, classes, batch, steps, model_args="", more=""):
    data = SYNTHETIC.format(c=channels, s=size, classes=classes, samples=batch * steps, batch=batch)
    return job(model, data, batch, model_args, more)


def write_data(folder, small):
    """Clicks, words and images, the same on every machine."""
    gpu_images.write_images(folder, *(8, 60, 44) if small else (32, 500, 375), 4096, 10)
    write_criteo(folder, 100 if small else 20000)
    state = 1
    with open(f"{folder}/clicks.csv", "w", encoding="utf-8") as file:
        file.write("click,a,b,c\n")
        for _ in range(20000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            a, b, c = (state >> 20) % 200, (state >> 30) % 4900, (state >> 45) % 1000
            file.write(f"{(a + b) % 2},a{a},b{b},c{c}\n")
    with open(f"{folder}/words.txt", "w", encoding="utf-8") as file:
        for i in range(60000):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            file.write(("one two three four five six seven".split())[(state >> 33) % 7])
            file.write("\n" if i % 11 == 0 else " ")


def write_criteo(folder, records):
    draw = random.Random(1)
    with open(f"{folder}/criteo.txt", "w", encoding="utf-8") as file:
        for _ in range(records):
            numbers = [str(draw.randint(0, 5000)) for _ in range(13)]
            words = [f"{int(draw.paretovariate(0.6)) % 60000:08x}" for _ in range(26)]
            file.write("\t".join([str(draw.randint(0, 1)), *numbers, *words]) + "\n")


SMALL_IMAGES = args(image="3,32,32", stem="3", classes="10")
IMAGENET = args(image="3,224,224", classes="1000")
# Images are cropped, scaled, mirrored and normalised on the device.
ON_DEVICE = "strategy { runtime_flags { use_dali: true } }\n"
AMP = "strategy { amp: true amp_configs { amp_dtype: bf16 } }\n"
AMP_ON_DEVICE = AMP.replace("amp: true", "amp: true runtime_flags { use_dali: true }")
AMP_GRAPHS = AMP.replace("amp: true", "amp: true execution_strategy { cuda_graph: true }")
# Overflows at first, and grows often.
AMP_SCALE = ("strategy { amp: true amp_configs { amp_dtype: f16 init_loss_scaling: 1e12 "
             "incr_every_n_steps: 4 decr_every_n_nan_or_inf: 1 incr_ratio: 2.0 decr_ratio: 0.001 "
             "use_dynamic_loss_scaling: true } }\n")


class Jobs:
    """`small`: as small as it goes, for a run of the list itself."""

    def __init__(self, folder, small):
        self.folder, self.small = folder, small
        write_data(folder, small)

    def images(self, model, size, batch, classes, model_args, more):
        data = IMAGES.format(folder=self.folder, classes=classes, size=size)
        return job(model, data, batch, model_args, more)

    def words(self, sequence, predicted):
        return WORDS.format(folder=self.folder, sequence=sequence, predicted=predicted)

    def losses(self):
        """Name, job, steps, largest difference of a loss between CPU and device. Rounding differs
        in products alone; it grows with the steps."""
        short = 2 if self.small else 1000
        rows = [
            ("lenet", image_job("lenet", 1, 28, 10, 64, 100), 100, 2e-3),
            ("resnet18", image_job("resnet18", 3, 32, 10, 32, 10, SMALL_IMAGES), 10, 2e-2),
            ("deepfm", job("deepfm", CLICKS.format(folder=self.folder), 64,
                           args(fields="3", rows=CLICK_ROWS, dim="8", hidden="32", sparse="1")),
             100, 2e-3),
            ("transformer_lm", job("transformer_lm", self.words(32, 0), 16,
                                   args(layers="2", width="64", heads="4", sequence="32")),
             50, 5e-3),
            ("bert_base", job("bert_base", self.words(32, 5), 8,
                              args(layers="2", width="64", heads="4", sequence="32",
                                   predicted="5")), 30, 5e-3),
        ]
        tiny = args(image="3,16,16", hidden="16", classes="10")
        rows.append(("images on the device",
                     self.images("mlp", 16, 8, 10, tiny, ON_DEVICE) if self.small else
                     self.images("resnet18", 32, 32, 10, SMALL_IMAGES, ON_DEVICE), 10, 2e-2))
        if self.small:
            rows = [rows[0], rows[2], rows[-1]]
        return [(name, text, min(steps, short), gap) for name, text, steps, gap in rows]

    def amp(self):
        """Job and steps whose loss scale must be the CPU's."""
        if self.small:
            return image_job("lenet", 1, 28, 10, 8, 12, "", AMP_SCALE), 12
        return image_job("resnet18", 3, 32, 10, 32, 40, SMALL_IMAGES, AMP_SCALE), 40

    def speeds(self):
        """Name, job, batch, steps, what gpu_torch.py calls the same; the most telling first."""
        if self.small:
            return [("lenet b4", image_job("lenet", 1, 28, 10, 4, 4), 4, 4, "")]
        rows = []
        for batch, steps in ((128, 30), (4, 60), (32, 40), (256, 20), (1, 60)):
            for more in (AMP, AMP_GRAPHS) if batch <= 32 else (AMP,):
                graphs = " graphs" if more == AMP_GRAPHS else ""
                rows.append((f"resnet50 224x224 b{batch} amp bf16{graphs}",
                             image_job("resnet50", 3, 224, 1000, batch, steps, IMAGENET, more),
                             batch, steps, "" if graphs else f"resnet50 {batch}"))
        bert = args(sequence="128", predicted="20", vocabulary="30522")
        text = args(sequence="128", layers="4", width="256", heads="4")
        for model, predicted, model_args in (("bert_base", 20, bert), ("transformer_lm", 0, text)):
            rows.append((f"{model} sequence 128 b32 amp bf16",
                         job(model, self.words(128, predicted), 32, model_args, AMP), 32, 30,
                         f"{model} 32"))
        for where, more in (("by the reader", AMP), ("on the device", AMP_ON_DEVICE)):
            rows.append((f"resnet50 224x224 b128 amp bf16, JPEG files, samples {where}",
                         self.images("resnet50", 224, 128, 10,
                                     args(image="3,224,224", classes="10"), more), 128, 20, ""))
        return rows + [("lenet b64", image_job("lenet", 1, 28, 10, 64, 200), 64, 200, "")]

    def servers(self):
        """deepfm with one pserver: job, batch, steps, what gpu_torch.py calls the same."""
        dim, hidden, batch, steps = ("4", "8", 8, 4) if self.small else ("16", "400,400,400", 512, 60)
        text = job("deepfm", CRITEO.format(folder=self.folder), batch,
                   args(fields="39", rows=CRITEO_IDS, dim=dim, hidden=hidden, distributed="1"))
        return text, batch, steps, "" if self.small else "deepfm 512"

    def knobs(self):
        """Job, batch, steps; name, flags, counters."""
        model = (image_job("lenet", 1, 28, 10, 4, 4), 4, 4)
        if not self.small:
            model = (image_job("resnet18", 3, 32, 10, 128, 40, SMALL_IMAGES), 128, 40)
        rows = [("as it is", [], [])]
        memory = ["device.driver_calls", "device.driver_bytes"]
        for fraction in ("0", "0.5", "0.92"):
            rows.append((f"fraction_of_gpu_memory_to_use={fraction}",
                         [f"--fraction_of_gpu_memory_to_use={fraction}"], memory))
        for megabytes in ("0", "8", "4000"):
            rows.append((f"conv_workspace_size_limit={megabytes}",
                         [f"--conv_workspace_size_limit={megabytes}"], ["arena_bytes"]))
        for flag in ("cuda_graph", "fuse_bn_act_ops", "fuse_bn_add_act_ops",
                     "fuse_all_optimizer_ops", "fuse_elewise_add_act_ops", "enable_auto_fusion"):
            for value in ("false", "true"):
                rows.append((f"{flag}={value}", [f"--{flag}={value}"],
                             ["ops", "device.launches", "plan.nvrtc", "plan.sequence"]))
        for megabytes in ("8", "4000"):
            rows.append((f"cudnn_exhaustive_search, conv_workspace_size_limit={megabytes}",
                         ["--cudnn_exhaustive_search=true",
                          f"--conv_workspace_size_limit={megabytes}"], ["arena_bytes"]))
        return model, rows[:3] + rows[7:9] if self.small else rows


# Communication on one card: name, ranks, flags.
NCCL = [
    ("one rank", 1, []),
    ("two ranks", 2, []),
    ("four ranks in groups of two", 4, ["--use_hierarchical_allreduce=true",
                                        "--hierarchical_allreduce_inter_nranks=2"]),
    ("two ranks, gradients as f16", 2, ["--fp16_allreduce=true"]),
    ("two ranks, dgc", 2, ["--dgc=true", "--dgc_configs.rampup_begin_step=1000"]),
    # Last: CUDA gives no guarantee for kernels of several communicators that wait for other ranks.
    ("two ranks, three communicators", 2, ["--nccl_comm_num=3", "--sync_nccl_allreduce=false",
                                           "--fuse_all_reduce_ops=false"]),
]

# Items that the list of issue 6 requests and no program supports yet.
NOT_BUILT = [
    ("NCCL's operations in CUDA graphs", "not built: graphs end where communication begins"),
    ("waits for communication on the device", "not built: the executor waits on the host"),
]
