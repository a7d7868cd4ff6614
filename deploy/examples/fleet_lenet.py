"""LeNet on Fashion-MNIST in Python, by one process or by several ranks:

    python3 fleet_lenet.py
    tandemrun --nproc=2 fleet_lenet.py --steps=200
    tandemrun --servers=2 --workers=2 fleet_lenet.py --steps=200

All three give the same parameters. The package tandem must be installed, or PYTHONPATH must name
build/python.
"""

import argparse
import gzip
import json
import os
import time

import numpy
import tandem
from tandem import fleet

FASHION = "/usr/share/datasets/fashion-mnist"
BATCH = 128  # samples of a step on all ranks together


def load():
    """The images, scaled to mean 0 and deviation 1, and their labels."""
    with gzip.open(os.path.join(FASHION, "train-images-idx3-ubyte.gz")) as file:
        pixels = numpy.frombuffer(file.read()[16:], numpy.uint8).reshape(-1, 1, 28, 28)
    with gzip.open(os.path.join(FASHION, "train-labels-idx1-ubyte.gz")) as file:
        labels = numpy.frombuffer(file.read()[8:], numpy.uint8).astype(numpy.int64).reshape(-1, 1)
    f32 = numpy.float32
    scaled = (numpy.arange(256, dtype=f32) / f32(255) - f32(0.2860)) / f32(0.3530)
    return scaled[pixels], labels


def network():
    """Adds LeNet to the current program. Returns loss and accuracy."""
    layers = tandem.layers
    image = tandem.data("img", [None, 1, 28, 28])
    label = tandem.data("label", [None, 1], "int64")
    x = layers.pool2d(layers.conv2d(image, 8, 5, padding=2, act="relu"), 2, "max", 2)
    x = layers.pool2d(layers.conv2d(x, 16, 5, act="relu"), 2, "max", 2)
    x = layers.fc(layers.fc(x, 120, act="relu"), 84, act="relu")
    logits = layers.fc(x, 10)
    return layers.softmax_loss(logits, label), layers.accuracy(logits, label)


def main():
    """Trains, and prints a line for each 50 steps on worker 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=469)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a field of the strategy, such as gradient_merge=true")
    parser.add_argument("--threads", type=int, help="threads of each rank")
    parser.add_argument("--result", help="file for the result of worker 0, as JSON")
    given = parser.parse_args()

    fleet.init()
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    strategy = fleet.DistributedStrategy()
    for text in given.set:
        name, _, value = text.partition("=")
        setattr(strategy, name, value)
    loss, accuracy = network()
    optimizer = fleet.distributed_optimizer(tandem.optimizer.Adam(0.002), strategy)
    optimizer.minimize(loss)

    exe = tandem.Executor(threads=given.threads)
    exe.run(tandem.default_startup_program())
    fleet.init_worker()
    images, labels = load()
    sampler = tandem.Sampler(len(labels), BATCH)
    rank, share = fleet.worker_index(), BATCH // fleet.worker_num()
    begin = time.time()
    for step in range(given.steps):
        ids = sampler.batch(step // sampler.steps_per_epoch, step % sampler.steps_per_epoch)
        mine = ids[rank * share:(rank + 1) * share]
        feed = {"img": images[mine], "label": labels[mine]}
        cost, right = exe.run(feed=feed, fetch_list=[loss, accuracy])
        if fleet.is_first_worker() and (step + 1) % 50 == 0:
            speed = BATCH * (step + 1) / (time.time() - begin)
            print(f"step {step + 1}: loss {cost[0]:.4f}, accuracy {right[0]:.3f}, "
                  f"{speed:.0f} images/s", flush=True)
    fleet.stop_worker()
    if given.result and fleet.is_first_worker():
        with open(given.result, "w", encoding="utf-8") as file:
            json.dump({"params_sha256": tandem.params_sha256(), "loss": float(cost[0])}, file)


if __name__ == "__main__":
    main()
