"""DeepFM with a million ids in pserver, collective and hybrid mode: two trainers, two pservers. The
clicks follow a planted model, so that there is something to learn: an id of a column has a weight,
and a click is drawn with the logistic of their sum."""

import math
import os
import random
import tempfile

from jobs import run_job

COLUMNS, IDS, TRAIN, TEST, STEPS = 39, 25641, 20000, 4000, 60
MODES = {"pserver": ["--mode=pserver", "--servers=2", "--workers=2"],
         "collective": ["--mode=collective", "--nproc=2"],
         "hybrid": ["--mode=hybrid", "--servers=2", "--workers=2"]}

JOB = """
name: "hybrid_deepfm"
model {{
  zoo: "deepfm"
  arg {{ name: "fields" value: "{columns}" }}
  arg {{ name: "rows" value: "{rows}" }}
  arg {{ name: "dim" value: "16" }}
  arg {{ name: "hidden" value: "400,400,400" }}
  arg {{ name: "sparse" value: "1" }}
}}
data {{
  format: "csv" dir: "."
  csv {{
    train_file: "train.csv" test_file: "test.csv"
    label_column: "click" positive_label: "1" negative_label: "0"
    {list}
  }}
}}
optimizer {{ type: "adagrad" learning_rate: 0.02 }}
global_batch_size: 512
eval_every_epochs: 0
epochs: 1000
steps_max: {steps}
"""


def _write_clicks(path, records, dice, weights):
    with open(path, "w", encoding="utf-8") as file:
        file.write("click," + ",".join(f"c{c}" for c in range(COLUMNS)) + "\n")
        for _ in range(records):
            # Few ids are frequent, as in click logs.
            ids = [int(IDS * dice.random() ** 6) for _ in range(COLUMNS)]
            logit = sum(weights[c][i] for c, i in enumerate(ids)) / math.sqrt(COLUMNS)
            click = dice.random() < 1 / (1 + math.exp(-2 * logit))
            file.write(f"{int(click)}," + ",".join(map(str, ids)) + "\n")


def write_job(folder):
    dice = random.Random(7)
    weights = [[dice.gauss(0, 1) for _ in range(IDS)] for _ in range(COLUMNS)]
    _write_clicks(os.path.join(folder, "train.csv"), TRAIN, dice, weights)
    _write_clicks(os.path.join(folder, "test.csv"), TEST, dice, weights)
    columns = "\n    ".join(f'column {{ name: "c{c}" kind: HASH ids: {IDS} }}'
                            for c in range(COLUMNS))
    path = os.path.join(folder, "job.pbtxt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOB.format(columns=COLUMNS, rows=COLUMNS * IDS, list=columns, steps=STEPS))
    return path


def round_of(bin_dir, job):
    """{mode: (samples a second, AUC, bytes of a step by road)}."""
    taken = {}
    for mode, launch in MODES.items():
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            result = run_job(bin_dir, launch, job, folder)
        counts, steps = result["counts"], result["steps"]
        roads = {"allreduce": counts.get("comm_bytes", 0),
                 "to pservers": counts.get("ps.sent_bytes", 0),
                 "from pservers": counts.get("ps.received_bytes", 0)}
        taken[mode] = (result["images_per_s"], result["auc"],
                       {road: round(n / steps) for road, n in roads.items()})
    return taken
