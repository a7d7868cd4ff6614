#!/usr/bin/env python3
"""A PyTorch model whose parameters two servers update. Each trainer is one process.

    build/bin/tandem-pserver --listen=127.0.0.1:7000 --index=0 --job=curve --trainers=2 &
    build/bin/tandem-pserver --listen=127.0.0.1:7001 --index=1 --job=curve --trainers=2 &
    export PYTHONPATH=build/python OMP_WAIT_POLICY=passive
    python3 deploy/examples/torch_client.py --trainer=0 --trainers=2 127.0.0.1:7000 127.0.0.1:7001 &
    python3 deploy/examples/torch_client.py --trainer=1 --trainers=2 127.0.0.1:7000 127.0.0.1:7001

With `--data_dir=DIR --durability=logged` a server that was killed goes on where it was, once it is started
again at its address. --tls=FOLDER names certificates of the role trainer (tandem certs issue)."""

import argparse
import os

# Threads of torch that spin take the processors from servers on this host. OpenMP reads this once.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# pylint: disable=wrong-import-position
import numpy
import torch

import tandem_pserver

BATCH = 64


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("servers", nargs="+", metavar="HOST:PORT")
    parser.add_argument("--job", default="curve")
    parser.add_argument("--trainer", type=int, default=0)
    parser.add_argument("--trainers", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tls", help="folder with tls.crt, tls.key and ca.crt")
    return parser.parse_args()


def gradients(model, step, given):
    """Of this trainer's part of the batch of `step`. The servers add the trainers' gradients."""
    torch.manual_seed(step)
    x = 2 * torch.rand(BATCH, 1) - 1
    part = slice(given.trainer, None, given.trainers)
    model.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x[part]), torch.sin(3 * x[part]))
    loss.backward()
    found = {}
    for name, p in model.named_parameters():
        grad = p.grad if p.grad is not None else torch.zeros_like(p)
        found[name] = grad.numpy() / numpy.float32(given.trainers)
    return found, loss.item()


def main():
    given = arguments()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    # These arrays share the parameters' memory, so received values are in the model.
    params = {name: p.detach().numpy() for name, p in model.named_parameters()}
    with tandem_pserver.Client(given.servers, job=given.job, trainer=given.trainer,
                               trainers=given.trainers, tls=given.tls) as client:
        client.configure({name: p.shape for name, p in params.items()}, "momentum", {"mu": 0.9})
        step, loss = client.init_or_fetch(params), 0.0
        while step < given.steps:
            grads, loss = gradients(model, step, given)
            step = client.push_pull(step, 0.05, grads, params)
        client.complete()
    print(f"trainer {given.trainer}: loss {loss:.5f} after {step} steps")


if __name__ == "__main__":
    main()
