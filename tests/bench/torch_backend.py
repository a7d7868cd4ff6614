#!/usr/bin/env python3
"""The backend `tandem` of torch.distributed beside gloo, in one alternating run.

usage: tests/bench/torch_backend.py [--build=build] [--ranks=2] [--rounds=5]

Each rank has a group of both backends. In each round the backends take turns: an allreduce of f32 in
several sizes, and steps of DistributedDataParallel with a multilayer perceptron and ResNet-18 on
images of 32 x 32. Also a step without a sum over the ranks, whose share of a step with a sum is the
efficiency. A figure is the median over the rounds, of rank 0."""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time

import machine

SIZES = (1, 1000, 10_000, 100_000, 1_000_000, 10_000_000)
SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def mlp(torch):
    sizes = [784, 1024, 1024, 10]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]), torch.randn(64, 784)


def resnet18(torch):
    nn = torch.nn

    class Block(nn.Module):
        """Two convolutions and the sum with their input."""

        def __init__(self, before, after, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
            self.side = nn.Identity() if stride == 1 and before == after else nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            return torch.relu(self.body(x) + self.side(x))

    layers, before = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()], 64
    for after in (64, 128, 256, 512):
        layers += [Block(before, after, 1 if after == 64 else 2), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)), \
        torch.randn(8, 3, 32, 32)


def seconds_of(call, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def rank(rounds):
    """The program of a rank; rank 0 prints the tables."""
    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    import tandem.torch  # pylint: disable=import-outside-toplevel,unused-import
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("tandem")
    groups = {"tandem": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = []
    for count in SIZES:
        tensor = torch.ones(count)
        found = {name: [] for name in groups}
        for _ in range(rounds):
            for name, group in groups.items():
                tensor.fill_(1)
                dist.barrier()
                found[name].append(seconds_of(lambda g=group: dist.all_reduce(tensor, group=g),
                                              max(3, min(200, 2_000_000 // count))))
        rows.append((f"allreduce of {count} f32", found, None))
    for title, make, steps in (("MLP, 1.9 M parameters", mlp, 10), ("ResNet-18, batch 8", resnet18, 2)):
        net, x = make(torch)
        found = {name: [] for name in groups}
        alone = []
        models = {name: torch.nn.parallel.DistributedDataParallel(net, process_group=group)
                  for name, group in groups.items()}

        def step(model, x=x):
            model.zero_grad()
            model(x).square().mean().backward()

        for _ in range(rounds):
            for name, model in models.items():
                dist.barrier()
                found[name].append(seconds_of(lambda m=model: step(m), steps))
            dist.barrier()
            with models["tandem"].no_sync():
                alone.append(seconds_of(lambda: step(models["tandem"]), steps))
        rows.append((f"DDP step, {title}", found, statistics.median(alone)))
    if dist.get_rank() == 0:
        print(f"| {dist.get_world_size()} ranks | tandem, us | gloo, us | gloo / tandem | "
              "efficiency tandem | efficiency gloo |\n|---|--:|--:|--:|--:|--:|")
        for title, found, alone in rows:
            mine, theirs = (statistics.median(found[name]) for name in ("tandem", "gloo"))
            shares = f"{alone / mine:.0%} | {alone / theirs:.0%}" if alone else "- | -"
            print(f"| {title} | {mine * 1e6:,.0f} | {theirs * 1e6:,.0f} | {theirs / mine:.2f} | {shares} |")
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if "RANK" in os.environ:
        rank(given.rounds)
        return 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print(f"{machine.describe()}; commit {machine.commit(SOURCE)}; {machine.today()}", flush=True)
    other = machine.OtherWork()
    ranks = [subprocess.Popen(
        [sys.executable, *sys.argv],
        env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(given.ranks), "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
             "PYTHONPATH": os.path.join(given.build, "python")}) for r in range(given.ranks)]
    failed = sum(process.wait() != 0 for process in ranks)
    print(f"other work on this machine: {other.share():.1%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
