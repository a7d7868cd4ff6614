"""The peer of paddle_side_by_side.py: the same networks, data and optimizers in PaddlePaddle on CPU.

usage: peer_paddle.py NETWORK --data=FILE.npz --batch=N --epochs=N --rate=R --out=FILE
         [--variant=eager] [--steps=N]

FILE.npz has x_train, y_train, x_test, y_test (uint8 or float images, or ids). `batch` is the number
of samples of a step over all ranks. Variants: "eager" or "static" (paddle.jit.to_static), with
"+sparse" for sparse gradients of tables. Rank 0 writes {"samples_per_s", "quality", "loss", ...}."""

import argparse
import json
import os
import time

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F

WARM_SHARE = 0.1  # share of the steps that is not timed


def lenet():
    return nn.Sequential(
        nn.Conv2D(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2D(2, 2),
        nn.Conv2D(6, 16, 5), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


class Block(nn.Layer):
    """relu(two convolutions of x + shortcut of x), as trainer/models/resnet.cc."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(before, after, 3, stride, 1, bias_attr=False), nn.BatchNorm2D(after), nn.ReLU(),
            nn.Conv2D(after, after, 3, 1, 1, bias_attr=False), nn.BatchNorm2D(after))
        self.side = None if stride == 1 and before == after else nn.Sequential(
            nn.Conv2D(before, after, 1, stride, bias_attr=False), nn.BatchNorm2D(after))

    def forward(self, x):
        return F.relu(self.body(x) + (x if self.side is None else self.side(x)))


def resnet18():
    layers = [nn.Conv2D(3, 64, 3, 1, 1, bias_attr=False), nn.BatchNorm2D(64), nn.ReLU()]
    before = 64
    for stage, after in enumerate((64, 128, 256, 512)):
        layers += [Block(before, after, 2 if stage else 1), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(512, 10))


class Click(nn.Layer):
    """wide_deep, or deepfm with `pairs`, as trainer/models/click.cc."""

    def __init__(self, rows, dim, fields, hidden, pairs, sparse):
        super().__init__()
        first = paddle.ParamAttr(initializer=nn.initializer.Normal(0.0, 0.01))
        self.wide = nn.Embedding(rows, 1, sparse=sparse, weight_attr=first)
        self.vectors = nn.Embedding(rows, dim, sparse=sparse, weight_attr=first)
        layers, width = [], fields * dim
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))
        self.pairs = pairs

    def forward(self, ids):
        v = self.vectors(ids)
        out = self.wide(ids).sum(1) + self.deep(v.flatten(1))
        if self.pairs:
            out = out + 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1, keepdim=True)
        return out


def click(data, pairs, sparse):
    fields = data["x_train"].shape[1]
    rows = int(max(data["x_train"].max(), data["x_test"].max())) + 1
    return Click(rows, 8, fields, [64, 32], pairs, sparse)


NETWORKS = {
    "lenet": lambda data, sparse: lenet(),
    "resnet18": lambda data, sparse: resnet18(),
    "wide_deep": lambda data, sparse: click(data, False, sparse),
    "deepfm": lambda data, sparse: click(data, True, sparse),
}


def accuracy(scores, labels):
    return float((scores.argmax(1) == labels[:, 0]).mean())


def auc(scores, labels):
    """The area under the curve, from the ranks of the scores; equal scores share their rank."""
    scores, labels = scores[:, 0], labels[:, 0]
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = labels == 1
    wins = rank[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))


class Run:
    """The training of this rank."""

    def __init__(self, given):
        self.given = given
        self.data = dict(np.load(given.data))
        self.ids = given.network in ("wide_deep", "deepfm")
        self.ranks = int(os.environ.get("PADDLE_TRAINERS_NUM", "1"))
        self.rank = int(os.environ.get("PADDLE_TRAINER_ID", "0"))
        if self.ranks > 1:
            paddle.distributed.init_parallel_env()
        paddle.seed(1)
        self.net = NETWORKS[given.network](self.data, "sparse" in given.variant)
        forward = paddle.jit.to_static(self.net) if given.variant.startswith("static") else self.net
        self.forward = paddle.DataParallel(forward) if self.ranks > 1 else forward
        weights = self.net.parameters()
        if self.ids:
            self.optimizer = paddle.optimizer.Adam(given.rate, parameters=weights,
                                                   weight_decay=None if "sparse" in given.variant
                                                   else 1e-5)
        elif given.network == "lenet":
            self.optimizer = paddle.optimizer.Adam(given.rate, parameters=weights)
        else:
            self.optimizer = paddle.optimizer.Momentum(given.rate, 0.9, parameters=weights)

    def loss(self, scores, labels):
        if self.ids:
            return F.binary_cross_entropy_with_logits(scores, labels.astype("float32"))
        return F.cross_entropy(scores, labels)

    def train(self):
        """Returns (samples a second, last loss)."""
        x, y, batch = self.data["x_train"], self.data["y_train"], self.given.batch
        own = batch // self.ranks
        random = np.random.default_rng(1)  # all ranks draw the same order
        steps = min(len(x) // batch, self.given.steps)
        warm, done, begin = int(WARM_SHARE * steps * self.given.epochs), 0, 0.0
        loss = None
        for _ in range(self.given.epochs):
            order = random.permutation(len(x))
            for step in range(steps):
                if done == warm:
                    begin = time.perf_counter()
                first = step * batch + self.rank * own
                pick = order[first:first + own]
                loss = self.loss(self.forward(paddle.to_tensor(x[pick])), paddle.to_tensor(y[pick]))
                loss.backward()
                self.optimizer.step()
                self.optimizer.clear_grad()
                done += 1
        last = float(loss)
        return (done - warm) * batch / (time.perf_counter() - begin), last

    def test(self):
        self.net.eval()
        with paddle.no_grad():
            parts = [self.net(paddle.to_tensor(self.data["x_test"][k:k + 500])).numpy()
                     for k in range(0, len(self.data["x_test"]), 500)]
        return (auc if self.ids else accuracy)(np.concatenate(parts), self.data["y_test"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=sorted(NETWORKS))
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--steps", type=int, default=1 << 30, help="of an epoch, at most")
    parser.add_argument("--variant", default="eager")
    parser.add_argument("--out", required=True)
    given = parser.parse_args()
    paddle.set_device("cpu")
    run = Run(given)
    print(f"rank {run.rank} trains", flush=True)
    speed, loss = run.train()
    if run.rank == 0:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump({"samples_per_s": speed, "loss": loss, "quality": run.test(),
                       "version": paddle.__version__}, file)


if __name__ == "__main__":
    main()
