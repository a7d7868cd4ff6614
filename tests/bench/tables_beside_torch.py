#!/usr/bin/env python3
"""DeepFM with its tables on a parameter server of this machine, beside sparse embeddings of PyTorch.

usage: tests/bench/tables_beside_torch.py [--build=build] [--layout=merged] [--optimizer=adagrad]
       [--fields=26] [--ids=1] [--rows=100000] [--batch=2048] [--hidden=400,400,400] [--rounds=5]
       [--steps=20] [--wait_policy=passive] [--profile]

Each side is a process with the same model, first dense parameters and batches. The sides take turns
within one run. `layout`: one table for all fields, or a table for each field. `ids`: ids of a field in
a sample, whose rows EmbeddingBag adds. Sides:
  torch     torch.nn.EmbeddingBag(sparse=True), torch.optim.Adagrad or SparseAdam
  tandem    tandem.torch.EmbeddingBag, the tables on one tandem-pserver
  prefetch  the same, with prefetch of the next batch
The data is generated: ids of each field follow a power law, and a click depends on the ids."""

import argparse
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time

import machine

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DIM, BATCHES, RATE = 16, 40, 0.02
SIDES = ("torch", "tandem", "prefetch")
REPLY_S = 300  # time limit of a line of a side


def batches(given, torch):
    """(ids i64 [batch, fields, ids], clicks f32 [batch]) of BATCHES batches; ids start at 0."""
    import numpy  # pylint: disable=import-outside-toplevel
    random = numpy.random.default_rng(5)
    shape = (BATCHES, given.batch, given.fields, given.ids)
    ids = numpy.minimum(random.pareto(0.35, shape), given.rows - 1.0).astype(numpy.int64)
    ids = ids * 7919 % given.rows  # frequent ids are not neighbours
    score = numpy.sin(ids.sum(3) * 12.9898 + numpy.arange(given.fields)).sum(2) / given.fields**0.5
    clicks = (random.random(shape[:2]) < 1 / (1 + numpy.exp(1.5 - 3 * score))).astype(numpy.float32)
    return [(torch.from_numpy(i), torch.from_numpy(c)) for i, c in zip(ids, clicks)]


def model_of(given, torch, make):
    """DeepFM. make(rows, dim) makes a table."""
    merged = given.layout == "merged"
    tables, rows = (1, given.fields * given.rows) if merged else (given.fields, given.rows)

    class DeepFM(torch.nn.Module):
        """A weight and a vector for each id, products of pairs, and a multilayer perceptron."""

        def __init__(self):
            super().__init__()
            self.wide = torch.nn.ModuleList(make(rows, 1) for _ in range(tables))
            self.vectors = torch.nn.ModuleList(make(rows, DIM) for _ in range(tables))
            torch.manual_seed(1)
            layers, width = [], given.fields * DIM
            for units in map(int, given.hidden.split(",")):
                layers += [torch.nn.Linear(width, units), torch.nn.ReLU()]
                width = units
            self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))
            self.begins = torch.arange(given.fields) * (given.rows if merged else 0)

        def inputs(self, ids):
            """The ids of each table, [bags, ids]."""
            if merged:
                return [(ids + self.begins[:, None]).reshape(-1, given.ids)]
            return list(ids.transpose(0, 1).contiguous())

        def forward(self, inputs):
            batch = inputs[0].shape[0] // (given.fields if merged else 1)
            wide = torch.stack([t(i) for t, i in zip(self.wide, inputs)], 1)
            v = torch.stack([t(i) for t, i in zip(self.vectors, inputs)], 1)
            wide, v = wide.view(batch, -1), v.view(batch, -1, DIM)
            pairs = 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)
            return wide.sum(1) + pairs + self.deep(v.flatten(1))[:, 0]

    return DeepFM()


class Torch:
    """All of it in the process."""

    def __init__(self, given, torch):
        def make(rows, dim):
            table = torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True)
            torch.nn.init.constant_(table.weight, 0.01)
            return table

        self.model = model_of(given, torch, make)
        tables = [*self.model.wide.parameters(), *self.model.vectors.parameters()]
        dense = list(self.model.deep.parameters())
        if given.optimizer == "adagrad":
            self.optimizers = [torch.optim.Adagrad(tables + dense, lr=RATE, eps=1e-6)]
        else:
            self.optimizers = [torch.optim.SparseAdam(tables, lr=RATE),
                               torch.optim.Adam(dense, lr=RATE)]

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self, _):
        for optimizer in self.optimizers:
            optimizer.step()


class Tandem:
    """The tables on a server, the dense parameters in the process."""

    def __init__(self, given, torch, ahead):
        import tandem.torch  # pylint: disable=import-outside-toplevel
        self.ahead = ahead
        self.model = model_of(given, torch, lambda rows, dim: tandem.torch.EmbeddingBag(
            rows, dim, "sum", init="constant", a=0.01))
        dense = self.model.deep.parameters()
        if given.optimizer == "adagrad":
            kind, attrs = "adagrad", {"epsilon": 1e-6}
            dense = torch.optim.Adagrad(dense, lr=RATE, eps=1e-6)
        else:
            kind, attrs = "adam", {"lazy_mode": True}
            dense = torch.optim.Adam(dense, lr=RATE)
        self.optimizer = tandem.torch.Optimizer(self.model, kind, lr=RATE, attrs=attrs, dense=dense,
                                                servers=[given.server], job=given.side, trainer=0,
                                                trainers=1)
        if not self.optimizer.counts()["shm_servers"]:
            raise SystemExit("the server is not called through shared memory")

    def zero_grad(self):
        self.optimizer.zero_grad()

    def step(self, next_inputs):
        if self.ahead:
            for tables in (self.model.wide, self.model.vectors):
                for table, ids in zip(tables, next_inputs):
                    table.prefetch(ids)
        self.optimizer.step()


def side(given):
    """A side: for each line of stdin, trains that many steps and prints their seconds, the CPU seconds
    of this process, and the last loss."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(given.threads)
    data = batches(given, torch)
    trained = Torch(given, torch) if given.side == "torch" else Tandem(given, torch,
                                                                      given.side == "prefetch")
    data = [(trained.model.inputs(ids), clicks) for ids, clicks in data]
    loss_of, at = torch.nn.functional.binary_cross_entropy_with_logits, 0

    def step():
        nonlocal at
        inputs, clicks = data[at % BATCHES]
        at += 1
        trained.zero_grad()
        loss = loss_of(trained.model(inputs), clicks)
        loss.backward()
        trained.step(data[at % BATCHES][0])
        return loss.item()

    step()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
                for _ in range(10):
                    step()
            print(found.key_averages().table(sort_by="self_cpu_time_total", row_limit=16,
                                             max_name_column_width=48), file=sys.stderr)
            print("done", flush=True)
            continue
        begin, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            loss = step()
        print(time.perf_counter() - begin, time.process_time() - cpu, loss, flush=True)


def end(running):
    """Waits for the end of a process for at most a minute, then kills it."""
    try:
        running.wait(60)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


def start_server(given, job, folder):
    """A tandem-pserver of the job, and its address."""
    address = f"unix:{folder}/{job}.sock"
    log = open(os.path.join(folder, job + ".log"), "w", encoding="utf-8")
    running = subprocess.Popen(
        [os.path.join(given.build, "bin", "tandem-pserver"), f"--listen={address}", "--trainers=1",
         f"--job={job}", f"--threads={given.server_threads}"], stdout=log, stderr=log)
    return running, address


def start_side(given, name, address):
    environment = {**os.environ, "OMP_WAIT_POLICY": given.wait_policy}
    environment["PYTHONPATH"] = os.path.join(given.build, "python") + ":" + os.environ.get(
        "PYTHONPATH", "")
    running = subprocess.Popen([sys.executable, *sys.argv, f"--side={name}", f"--server={address}"],
                               env=environment, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    return running


def line_of(running, name, limit_s=REPLY_S):
    """The next line of a side. The side writes one line for each request, so that none waits in the
    buffer of this process."""
    ready, _, _ = select.select([running.stdout], [], [], limit_s)
    line = running.stdout.readline() if ready else ""
    if not line.endswith("\n"):
        raise SystemExit(f"the side {name} ended" if ready else
                         f"the side {name} did not reply within {limit_s} s")
    return line


def ask(running, name, line):
    running.stdin.write(f"{line}\n")
    running.stdin.flush()
    return line_of(running, name)


def cpu_seconds(process):
    """CPU seconds that a running process has used."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def compare(given, sides, servers):
    """Runs the rounds and prints a line for each side."""
    found = {name: [] for name in sides}
    cpu, losses = {name: [] for name in sides}, {}
    for _ in range(given.rounds):
        for name, running in sides.items():
            used = cpu_seconds(servers[name][0]) if name in servers else 0.0
            reply = ask(running, name, given.steps)
            seconds, own, losses[name] = map(float, reply.split())
            used = cpu_seconds(servers[name][0]) - used if name in servers else 0.0
            found[name].append(given.steps * given.batch / seconds)
            cpu[name].append((own + used) / given.steps * 1e3)
    plain = statistics.median(found["torch"])
    for name, speeds in found.items():
        middle = statistics.median(speeds)
        print(f"| {name} | {middle:,.0f} | {min(speeds):,.0f} .. {max(speeds):,.0f} | "
              f"{middle / plain:.2f} | {given.batch / middle * 1e3:.1f} | "
              f"{statistics.median(cpu[name]):.1f} | {losses[name]:.4f} |")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--layout", default="merged", choices=("merged", "fields"))
    parser.add_argument("--optimizer", default="adagrad", choices=("adagrad", "adam"))
    for name, value in (("fields", 26), ("ids", 1), ("rows", 100_000), ("batch", 2048), ("rounds", 5),
                        ("steps", 20), ("threads", 2), ("server_threads", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--hidden", default="400,400,400")
    # active: beside other work, threads of PyTorch that spin wait for threads without a processor.
    parser.add_argument("--wait_policy", default="passive", choices=("passive", "active"))
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    given = arguments()
    given.build = os.path.abspath(given.build)
    if given.side:
        side(given)
        return
    print(f"{machine.describe()}; commit {machine.commit(SOURCE)}; {machine.today()}")
    print(f"{given.layout}, {given.optimizer}, {given.fields} fields with {given.ids} of {given.rows} "
          f"ids, batch "
          f"{given.batch}, layers {given.hidden}, {given.threads} threads\n"
          "| side | samples/s | range | of torch | ms a step | CPU ms a step | loss |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    other = machine.OtherWork()
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        servers = {name: start_server(given, name, folder) for name in SIDES[1:]}
        sides = {}
        try:
            for name in SIDES:
                sides[name] = start_side(given, name, servers.get(name, (None, ""))[1])
                line_of(sides[name], name)
            compare(given, sides, servers)
            if given.profile:
                for name, running in sides.items():
                    ask(running, name, "profile")
        finally:
            for running in sides.values():
                running.stdin.close()
                end(running)
            for running, _ in servers.values():
                running.terminate()
                end(running)
    print(f"other work on this machine: {other.share():.1%}")


if __name__ == "__main__":
    main()
