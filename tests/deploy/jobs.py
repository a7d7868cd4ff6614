"""Jobs that tests of this folder run, with their data."""

import os

# Dense slices and a table; evaluation, checkpoints and WAL records within a second.
CLICK = """
name: "click"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "2" }
  arg { name: "rows" value: "34" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
  arg { name: "sparse" value: "1" }
  arg { name: "device" value: "cpu" }
}
data {
  format: "csv"
  dir: "."
  csv {
    train_file: "train.csv"
    test_file: "train.csv"
    label_column: "click"
    positive_label: "1"
    negative_label: "0"
    column { name: "user" ids: 22 }
    column { name: "item" ids: 12 }
  }
}
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 64
epochs: 100000
log_every_steps: 10
checkpoint { dir: "checkpoints" every_steps: 100 }
"""


def write_click(folder):
    """CLICK as job.pbtxt, with its data."""
    with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
        file.write(CLICK)
    with open(os.path.join(folder, "train.csv"), "w", encoding="utf-8") as file:
        file.write("user,item,click\n")
        file.writelines(f"u{i * 7 % 20},i{i * 3 % 10},{i * 7 % 20 % 2}\n" for i in range(2000))
