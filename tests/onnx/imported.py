"""An ONNX model, imported and trained by Tandem's own trainer on samples that the caller gives."""

import json
import os
import random
import struct
import subprocess
import zlib

JOB = """name: "imported"
model {{ program: "model.pbtxt" parameters: "model.safetensors" }}
data {{
  format: "recordio"
  dir: "."
  shuffle: false
  examples {{ train_file: "samples.recordio" test_file: "samples.recordio" {features} }}
}}
optimizer {{ {optimizer} }}
global_batch_size: {batch}
epochs: 1000
steps_max: {steps}
eval_every_epochs: 0
log_every_steps: 1
checkpoint {{ dir: "kept" }}
"""
OPTIMIZER = {"learning_rate": 0.02, "momentum": 0.9}
STEPS = 20
# The largest relative difference from PyTorch of a loss and of a tensor's numbers. Both sides
# compute in f32 and add in different orders.
# A sum of n terms then differs by about sqrt(n) 6e-8, which is 2e-6 for the 1000 terms of the
# largest sums here. The differences accumulate over 20 steps, so losses may differ by five times as
# much.
# The difference of a number is relative to the largest number of its tensor.
LOSS_MAX, WEIGHT_MAX = 1e-5, 1e-5


def draw(fields, count, seed=7):
    """Samples that are the same on every machine. `fields`: by name the shape in a sample, and a limit for
    whole numbers; 0: floats."""
    generator = random.Random(seed)

    def value(limit):
        if limit > 0:
            return int(generator.random() * limit)
        number = sum(generator.random() for _ in range(4)) * 1.7 - 3.4  # approximately normal
        return struct.unpack("<f", struct.pack("<f", number))[0]

    samples = []
    for _ in range(count):
        sample = {}
        for name, (shape, limit) in fields.items():
            size = 1
            for number in shape:
                size *= number
            sample[name] = [value(limit) for _ in range(size)]
        samples.append(sample)
    return samples


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, content):
    """A field of a protobuf message that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(sample):
    """tf.train.Example: a list of floats or of whole numbers for each name."""
    features = b""
    for name, values in sample.items():
        if isinstance(values[0], float):
            kind = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            kind = field(3, field(1, b"".join(varint(value) for value in values)))
        features += field(1, field(1, name.encode()) + field(2, kind))
    return field(1, features)


def write_samples(path, samples):
    """A recordio file of one chunk."""
    payload = b""
    for sample in samples:
        record = example(sample)
        payload += struct.pack("<I", len(record)) + record
    with open(path, "wb") as file:
        file.write(struct.pack("<5I", 0x01020304, len(samples), zlib.crc32(payload), 0,
                               len(payload)) + payload)


def optimizer_text(settings):
    return 'type: "momentum" ' + " ".join(f"{name}: {value}" for name, value in settings.items())


class Refused(Exception):
    """The import ended with an error, which is the text."""


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done


def import_model(binaries, path, folder, inputs):
    """`inputs`: names of the model's inputs, which become the fields. What the import said."""
    command = [os.path.join(binaries, "tandem"), "import", path, folder,
               "--rename=" + ",".join(f"{name}={name}" for name in inputs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stderr + done.stdout


def train(binaries, folder, samples, dims, batch, optimizer=None, steps=STEPS):
    """The losses of the first steps, in the order of `samples`, of what import_model wrote.
    `dims`: the shape of each field of a sample."""
    write_samples(os.path.join(folder, "samples.recordio"), samples)
    features = ""
    for name, sizes in dims.items():
        kind = "FLOAT" if isinstance(samples[0][name][0], float) else "INT64"
        features += f'feature {{ name: "{name}" kind: {kind} ' + "".join(
            f"dim: {size} " for size in sizes) + "} "
    job = os.path.join(folder, "job.pbtxt")
    with open(job, "w", encoding="utf-8") as file:
        file.write(JOB.format(features=features, batch=batch, steps=steps,
                              optimizer=optimizer_text(optimizer or OPTIMIZER)))
    done = run([os.path.join(binaries, "tandem-trainer"), "--job_file=" + job, "--log_format=json"])
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    losses = [line["loss"] for line in lines if "step" in line]
    if len(losses) != steps:
        raise RuntimeError(f"{len(losses)} losses, expected {steps}:\n{done.stderr[-3000:]}")
    return losses


def checkpoint(folder):
    """The file with what train() left."""
    for path, _, files in os.walk(os.path.join(folder, "kept")):
        if "model.safetensors" in files:
            return os.path.join(path, "model.safetensors")
    raise RuntimeError(f"no checkpoint in {folder}")
