"""The peer of dp_efficiency: PyTorch's DistributedDataParallel over Gloo on the mlp of
data_parallel.py, two processes with a thread each; alone first, then together.

usage: peer_ddp.py --out=FILE
"""

import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

RANKS, BATCH, STEPS, WARM = 2, 64, 60, 12
TIMEOUT_S = 120  # DDP sometimes hangs at its start


def network():
    layers = []
    for _ in range(3):
        layers += [nn.Linear(2048, 2048), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(2048, 10))


def train(rank, together, port, gate, out):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = network()
    if together:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=RANKS)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 2048)
    labels = torch.randint(0, 10, (BATCH,))
    loss_of = nn.CrossEntropyLoss()
    gate.wait(TIMEOUT_S)
    each = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(images), labels).backward()
        optimizer.step()
        each.append(time.perf_counter() - begin)
    out[rank] = statistics.median(each[WARM:])
    if together:
        dist.destroy_process_group()


def both(together):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = mp.get_context("spawn")
    out, gate = context.Array("d", RANKS), context.Barrier(RANKS)
    started = [context.Process(target=train, args=(rank, together, port, gate, out))
               for rank in range(RANKS)]
    for process in started:
        process.start()
    for process in started:
        process.join(TIMEOUT_S)
    ended = all(process.exitcode == 0 for process in started)
    for process in started:
        process.kill()
    if not ended:
        raise SystemExit(f"a process did not end well within {TIMEOUT_S} s")
    return statistics.mean(out[:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    result = {"alone": both(False), "together": both(True)}
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
