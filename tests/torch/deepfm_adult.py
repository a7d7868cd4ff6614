"""DeepFM on the Adult table: Tandem's first 100 losses against PyTorch's from the same parameters.

The table is encoded here once more, from the description in trainer/reader/csv.h and not from its
code, so that the reader is compared too. One run per optimizer that PyTorch has.

usage: deepfm_adult.py --build=DIR [--data=DIR] [--steps=100] [--only=adam,...]
DIR of the data holds adult.data (default: $TANDEM_ADULT_DIR). Exit codes: 0 equal, 1 not equal,
77 torch or the data are missing.
"""

import argparse
import collections
import os
import re
import sys
import tempfile

import job_run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "deploy", "examples", "deepfm_adult.pbtxt")

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(job_run.EXIT_SKIPPED)


def columns_of(job):
    """(name, kind, ids) of every column of the job file."""
    found = re.findall(r'column \{ name: "([^"]+)"( kind: (\w+))? ids: (\d+) \}', job)
    return [(name, kind or "VOCABULARY", int(ids)) for name, _, kind, ids in found]


def encoder(kind, ids, values):
    """value -> id, learnt from the training file's values."""
    known = [v for v in values if v not in ("", "?")]
    if kind == "VOCABULARY":
        counts = collections.Counter(known)
        order = sorted(counts, key=lambda v: (-counts[v], v.encode()))[:ids - 1]
        numbers = {v: i + 1 for i, v in enumerate(order)}
        return lambda v: numbers.get(v, 0)
    numbers, bounds, at = sorted(float(v) for v in known), [], 0
    for left in range(ids - 1, 1, -1):
        if at >= len(numbers):
            break
        at += max((len(numbers) - at) // left, 1)
        while at < len(numbers) and numbers[at] == numbers[at - 1]:
            at += 1
        if at < len(numbers):
            bounds.append(numbers[at])
    return lambda v: 0 if v in ("", "?") else 1 + sum(b <= float(v) for b in bounds)


def read_table(path, columns, records):
    """Ids [records, columns] and labels of the first records."""
    with open(path, encoding="ascii") as lines:
        rows = [[field.strip() for field in line.split(",")] for line in lines if line.strip()]
    names, rows = rows[0], rows[1:]
    ids, base = [], 0
    for name, kind, count in columns:
        values = [row[names.index(name)] for row in rows]
        encode = encoder(kind, count, values)
        ids.append([base + encode(v) for v in values[:records]])
        base += count
    labels = [row[names.index("income")].startswith(">") for row in rows[:records]]
    return torch.tensor(ids).t().contiguous(), torch.tensor(labels, dtype=torch.float32)[:, None]


class DeepFM(nn.Module):
    """Guo et al., IJCAI 2017."""

    def __init__(self, rows, dim, fields, hidden):
        super().__init__()
        self.wide, self.vectors = nn.Embedding(rows, 1), nn.Embedding(rows, dim)
        widths = [fields * dim, *hidden, 1]
        self.deep = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, ids):
        v = self.vectors(ids)
        x = v.flatten(1)
        for i, layer in enumerate(self.deep):
            x = layer(x) if i == 0 else layer(F.relu(x))
        pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return self.wide(ids).sum(1) + pairs + x

    def load(self, arrays):
        with torch.no_grad():
            self.wide.weight.copy_(torch.from_numpy(arrays["embedding_0.w"]))
            self.vectors.weight.copy_(torch.from_numpy(arrays["embedding_1.w"]))
            for i, layer in enumerate(self.deep):
                layer.weight.copy_(torch.from_numpy(arrays[f"fc_{i}.w"].T))
                layer.bias.copy_(torch.from_numpy(arrays[f"fc_{i}.b"]))


# Name: flags of the job, PyTorch's optimizer, norm to which all gradients are clipped.
O = torch.optim
CASES = {
    "sgd": (["type=sgd", "learning_rate=0.5"], lambda p: O.SGD(p, lr=0.5), None),
    "momentum": (["type=momentum", "learning_rate=0.05", "l2_decay=0.001"],
                 lambda p: O.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.001), None),
    "nesterov": (["type=momentum", "learning_rate=0.05", "use_nesterov=true"],
                 lambda p: O.SGD(p, lr=0.05, momentum=0.9, nesterov=True), None),
    "clip": (["type=sgd", "learning_rate=0.5", "clip_global_norm=0.2"],
             lambda p: O.SGD(p, lr=0.5), 0.2),
    "adam": (["type=adam", "learning_rate=0.001", "l2_decay=1e-5"],
             lambda p: O.Adam(p, lr=0.001, weight_decay=1e-5), None),
    "adamw": (["type=adamw", "learning_rate=0.001", "weight_decay=0.1"],
              lambda p: O.AdamW(p, lr=0.001, weight_decay=0.1), None),
    # Paddle's formula has epsilon at a different place than PyTorch's: it is too small to matter.
    "adamax": (["type=adamax", "learning_rate=0.002", "epsilon=1e-20"],
               lambda p: O.Adamax(p, lr=0.002, eps=1e-20), None),
    "adagrad": (["type=adagrad", "learning_rate=0.02", "epsilon=1e-6"],
                lambda p: O.Adagrad(p, lr=0.02, eps=1e-6), None),
    "decayed_adagrad": (["type=decayed_adagrad", "learning_rate=0.001", "epsilon=1e-6"],
                        lambda p: O.RMSprop(p, lr=0.001, alpha=0.95, eps=1e-6), None),
    # Under the root, and after it.
    "rmsprop": (["type=rmsprop", "learning_rate=0.0005", "epsilon=1e-30", "centered=true",
                 "momentum=0.5"],
                lambda p: O.RMSprop(p, lr=0.0005, alpha=0.95, eps=1e-15, centered=True,
                                    momentum=0.5), None),
}


def torch_losses(model, optimizer, clip, batches):
    def cut():
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)

    def loss_of(ids, labels):
        return F.binary_cross_entropy_with_logits(model(ids), labels)

    return job_run.torch_losses(optimizer, batches, loss_of, cut)


def compare(args, trainer, name, first, batches, columns):
    flags, make, clip = CASES[name]
    ours = trainer.losses("", args.steps, *["--optimizer." + f for f in flags])
    model = DeepFM(sum(c[2] for c in columns), 8, len(columns), [64, 32])
    model.load(first)
    theirs = torch_losses(model, make(model.parameters()), clip, batches)
    return job_run.same(name, ours, theirs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--data", default=os.environ.get("TANDEM_ADULT_DIR", ""))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default=",".join(CASES))
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.data, "adult.data")):
        print("skipped: adult.data is not there; name its folder in TANDEM_ADULT_DIR")
        return job_run.EXIT_SKIPPED
    with open(JOB, encoding="utf-8") as file:
        job = file.read()
    columns = columns_of(job)
    batch = int(re.search(r"global_batch_size: (\d+)", job).group(1))
    ids, labels = read_table(os.path.join(args.data, "adult.data"), columns, batch * args.steps)
    batches = list(zip(ids.split(batch), labels.split(batch)))
    good = True
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        trainer = job_run.Trainer(args.build, folder, job, args.data)
        first = trainer.first_parameters()
        for name in args.only.split(","):
            good &= compare(args, trainer, name, first, batches, columns)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
