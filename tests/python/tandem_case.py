"""What tests of the package `tandem` share: the package of this build, data, and trainer runs."""

import glob
import gzip
import json
import os
import subprocess
import sys
import tempfile

import script

script.need_modules("numpy", package="python3-numpy")
import numpy  # pylint: disable=wrong-import-position

PACKAGES = os.path.join(script.BUILD, "python")
if not glob.glob(os.path.join(PACKAGES, "tandem/_core.cpython*.so")):
    script.skip("this build has no module tandem._core (target tandem_core)")
sys.path.insert(0, PACKAGES)
import tandem  # pylint: disable=wrong-import-position

FASHION = "/usr/share/datasets/fashion-mnist"


def images():
    """The training images of Fashion-MNIST as jobs scale them, and their labels."""
    script.need_file(os.path.join(FASHION, "train-images-idx3-ubyte.gz"), "dataset-fashion-mnist")
    with gzip.open(os.path.join(FASHION, "train-images-idx3-ubyte.gz")) as file:
        pixels = numpy.frombuffer(file.read()[16:], numpy.uint8).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(FASHION, "train-labels-idx1-ubyte.gz")) as file:
        labels = numpy.frombuffer(file.read()[8:], numpy.uint8).astype(numpy.int64).reshape(-1, 1)
    f32 = numpy.float32
    scaled = (numpy.arange(256, dtype=f32) / f32(255) - f32(0.2860)) / f32(0.3530)
    return scaled[pixels], labels


def run_job(text, *flags):
    """Runs tandem-trainer on a job and returns its result."""
    with tempfile.TemporaryDirectory(prefix="tandem-python-") as folder:
        with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(text)
        command = [os.path.join(script.BIN, "tandem-trainer"), "--job_file=job.pbtxt",
                   "--result_json=result.json", *flags]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            return json.load(file)


def lenet(channels=(6, 16), hidden=(120, 84), classes=10):
    """LeNet of the zoo, in Python. Returns (loss, accuracy)."""
    layers = tandem.layers
    image = tandem.data("img", [None, 1, 28, 28])
    label = tandem.data("label", [None, 1], "i64")
    x = layers.conv2d(image, channels[0], 5, padding=2, act="relu")
    x = layers.pool2d(x, 2, "max", 2)
    x = layers.conv2d(x, channels[1], 5, act="relu")
    x = layers.pool2d(x, 2, "max", 2)
    for size in hidden:
        x = layers.fc(x, size, act="relu")
    logits = layers.fc(x, classes)
    loss = layers.softmax_loss(logits, label)
    return loss, layers.accuracy(logits, label)


def mlp(sizes=(16,), width=4, classes=3):
    """A small network on rows of numbers. Returns its loss."""
    x = tandem.data("x", [None, width])
    label = tandem.data("label", [None, 1], "i64")
    for size in sizes:
        x = tandem.layers.fc(x, size, act="relu")
    return tandem.layers.softmax_loss(tandem.layers.fc(x, classes), label)


def rows(batch=8, width=4, classes=3, seed=0):
    """A batch for `mlp`."""
    random = numpy.random.default_rng(seed)
    return {"x": random.standard_normal((batch, width)).astype(numpy.float32),
            "label": random.integers(0, classes, (batch, 1))}
