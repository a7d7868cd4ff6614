"""DeepFM from a raw text file in Criteo's form, the table on a parameter server: one trainer and one
pserver, two threads, an epoch from the start of the processes to their end."""

import os
import tempfile
import time

from jobs import run_job

FILE = "train.tsv"
RECORDS, BATCH, NUMBER_IDS, CATEGORY_IDS = SIZES = 100000, 512, 512, 65536
LAUNCH = ["--mode=pserver", "--servers=1", "--workers=1"]

JOB = """
name: "deepfm_text"
model {{
  zoo: "deepfm"
  arg {{ name: "fields" value: "39" }}
  arg {{ name: "rows" value: "{rows}" }}
  arg {{ name: "dim" value: "16" }}
  arg {{ name: "hidden" value: "400,400,400" }}
  arg {{ name: "sparse" value: "1" }}
  arg {{ name: "distributed" value: "1" }}
}}
data {{
  format: "criteo" dir: "."
  criteo {{ train_file: "{file}" test_share: 0.001
            category_ids: {categories} number_ids: {numbers} }}
}}
optimizer {{ type: "adagrad" learning_rate: 0.01 }}
batch_size: {batch}
threads: {threads}
epochs: 1
eval_every_epochs: 0
"""


def write_job(folder, source, threads):
    """A job on the first RECORDS lines of `source`; gives its path."""
    with open(source, "rb") as lines, open(os.path.join(folder, FILE), "wb") as out:
        for _ in range(RECORDS):
            out.write(lines.readline())
    path = os.path.join(folder, "job.pbtxt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOB.format(rows=13 * NUMBER_IDS + 26 * CATEGORY_IDS, categories=CATEGORY_IDS,
                              numbers=NUMBER_IDS, batch=BATCH, file=FILE, threads=threads))
    return path


def samples_per_s(bin_dir, job):
    """(samples a second from start to end, those of a step once it runs)."""
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        start = time.monotonic()
        result = run_job(bin_dir, LAUNCH, job, folder)
        seconds = time.monotonic() - start
    return result["steps"] * BATCH / seconds, result["images_per_s"]
