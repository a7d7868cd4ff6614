"""ResNet-18 on images in CIFAR-10's format: Tandem's first 100 losses against PyTorch's from the same
parameters, with the passes of a job (blocked layouts, Winograd's algorithm, fused operators).

The files are made here: images of noise on which each class leaves its colour. The reader is
compared too.

usage: resnet18_cifar.py --build=DIR [--steps=100]
Exit codes: 0 equal, 1 not equal, 77 torch is missing.
"""

import argparse
import os
import sys
import tempfile

import job_run

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(job_run.EXIT_SKIPPED)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import peer_torch  # noqa: E402

BATCH, CLASSES, EPOCHS = 16, 10, 5
# Small steps: roundings grow from step to step if they decide the sign of a relu's input. Measured
# difference: 4e-4 after 100 steps; with 0.0002 it is 1.4e-3 after 40.
LEARNING_RATE, MOMENTUM = 0.00005, 0.9
MEAN, STDDEV = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]

JOB = f"""
name: "resnet18_cifar"
model {{ zoo: "resnet18" arg {{ name: "image" value: "3,32,32" }} arg {{ name: "stem" value: "3" }} }}
data {{ format: "cifar10" }}
optimizer {{ }}
global_batch_size: {BATCH} epochs: {EPOCHS}
strategy {{ build_strategy {{ fuse_bn_act_ops: true }} }}
"""
OPTIMIZER = f'type: "momentum" momentum: {MOMENTUM} learning_rate: {LEARNING_RATE}'


def write_files(folder, samples):
    """The six files; returns the training images and labels."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, samples, dtype=np.uint8)
    colours = random.integers(0, 80, (CLASSES, 3))
    noise = random.integers(0, 176, (samples, 3, 32, 32))
    images = (noise + colours[labels][:, :, None, None]).astype(np.uint8)
    records = np.concatenate([labels[:, None], images.reshape(samples, -1)], 1)
    for i, part in enumerate(np.array_split(records, 5)):
        part.tofile(os.path.join(folder, f"data_batch_{i + 1}.bin"))
    records[:BATCH].tofile(os.path.join(folder, "test_batch.bin"))
    return images, labels


def load(model, arrays):
    """Parameters by order: convolutions and normalisations as they stand, then the last layer."""
    state = list(model.parameters())
    names = [n for i in range(20) for n in (f"conv_{i}.w", f"batch_norm_{i}.w", f"batch_norm_{i}.b")]
    names += ["fc_0.w", "fc_0.b"]
    assert len(state) == len(names) == len(arrays)
    with torch.no_grad():
        for parameter, name in zip(state, names):
            value = arrays[name]
            parameter.copy_(torch.from_numpy(value.T if name == "fc_0.w" else value))


def torch_losses(model, images, labels):
    x = torch.from_numpy(images).float() / 255.0
    x = (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STDDEV)[:, None, None]
    y = torch.from_numpy(labels.astype(np.int64))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    return job_run.torch_losses(optimizer, zip(x.split(BATCH), y.split(BATCH)),
                                lambda image, label: F.cross_entropy(model(image), label))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        images, labels = write_files(folder, args.steps // EPOCHS * BATCH)
        trainer = job_run.Trainer(args.build, folder, JOB, folder)
        first = trainer.first_parameters()
        ours = trainer.losses(OPTIMIZER, args.steps // EPOCHS * EPOCHS)
    model = peer_torch.resnet([2, 2, 2, 2], False, 3, CLASSES)
    load(model, first)
    theirs = torch_losses(model, np.tile(images, (EPOCHS, 1, 1, 1)), np.tile(labels, EPOCHS))
    return 0 if job_run.same("resnet18", ours, theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
