"""LeNet-5 on Fashion-MNIST: Tandem's first 100 losses against PyTorch's from the same parameters.

usage: lenet.py --build=DIR [--data=DIR] [--steps=100]
DIR of the data holds train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz (default: where
Debian's package dataset-fashion-mnist puts them). Exit codes: 0 equal, 1 not equal, 77 torch or the
data are missing.
"""

import argparse
import gzip
import os
import re
import sys
import tempfile

import job_run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOB = os.path.join(ROOT, "deploy", "examples", "lenet.pbtxt")
IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(job_run.EXIT_SKIPPED)


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList((nn.Conv2d(1, 8, 5, padding=2), nn.Conv2d(8, 16, 5)))
        self.fcs = nn.ModuleList((nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)))

    def forward(self, x):
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 2)
        x = x.flatten(1)
        for i, fc in enumerate(self.fcs):
            x = fc(x) if i == 0 else fc(F.relu(x))
        return x

    def load(self, arrays):
        with torch.no_grad():
            for i, conv in enumerate(self.convs):
                conv.weight.copy_(torch.from_numpy(arrays[f"conv_{i}.w"]))
                conv.bias.copy_(torch.from_numpy(arrays[f"conv_{i}.b"]))
            for i, fc in enumerate(self.fcs):
                fc.weight.copy_(torch.from_numpy(arrays[f"fc_{i}.w"].T))
                fc.bias.copy_(torch.from_numpy(arrays[f"fc_{i}.b"]))


# Optimizer of the job, optimizer of PyTorch. The steps are small: if max pooling or relu are at a
# tie, a rounding decides the way of a gradient. With SGD at 0.01, PyTorch itself differs by 8e-3
# after 34 steps if its parameters are moved by 1e-7.
CASES = {
    "sgd": ('type: "sgd" learning_rate: 0.001', lambda p: torch.optim.SGD(p, lr=0.001)),
    "adam": ('type: "adam" learning_rate: 0.0001', lambda p: torch.optim.Adam(p, lr=0.0001)),
}


def idx(path, header):
    with gzip.open(path) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=header)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    if not os.path.exists(os.path.join(args.data, IMAGES)):
        print(f"skipped: {args.data}/{IMAGES} is not there")
        return job_run.EXIT_SKIPPED
    torch.set_num_threads(2)
    with open(JOB, encoding="utf-8") as file:
        job = re.sub(r"^checkpoint .*$", "", file.read(), flags=re.M)
    batch = int(re.search(r"global_batch_size: (\d+)", job).group(1))
    pixels = idx(os.path.join(args.data, IMAGES), 16).reshape(-1, 1, 28, 28)[:batch * args.steps]
    labels = idx(os.path.join(args.data, LABELS), 8)[:batch * args.steps].astype(np.int64)
    images = (torch.from_numpy(pixels.astype(np.float32)) / 255 - 0.2860) / 0.3530
    batches = list(zip(images.split(batch), torch.from_numpy(labels).split(batch)))
    good = True
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        trainer = job_run.Trainer(args.build, folder, job, args.data)
        first = trainer.first_parameters()
        for name, (optimizer, make) in CASES.items():
            ours = trainer.losses(optimizer, args.steps)
            model = Lenet()
            model.load(first)
            theirs = job_run.torch_losses(make(model.parameters()), batches,
                                          lambda x, y, model=model: F.cross_entropy(model(x), y))
            good &= job_run.same(name, ours, theirs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
