#!/usr/bin/env python3
"""Kills servers and trainers of PyTorch models with tables, and accounts for every push.

usage: tests/long/torch_tables.py [--build=build] [--kills=200] [--seed=N]

Two trainers train tandem.torch.Embedding and EmbeddingBag on two pservers with
--durability=logged. SIGKILL ends servers and trainers at random moments; each is started again. Half
of the kills are in a_sync mode, half in sync mode. Each push adds a fixed number to its own row of
the table "ledger", and a trainer notes each push in a file before it and after the reply.

a_sync: a push with a reply is in the ledger once; a push without a reply, at most once.
sync: each push of each step is in the ledger once, and all tables and parameters have the bits of a
run without kills.

Prints the counts, and ends with 1 if a push is lost or doubled. The small form is
tests/python/torch_kills_test.py (10 kills)."""

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
for folder in ("support", "python"):
    sys.path.insert(0, os.path.join(SOURCE, "tests", folder))
ROWS, DIM, TRAINERS, SERVERS = 5000, 8, 2, 2
LEDGER_ROWS = 1 << 40
RATE = 0.25  # a push subtracts RATE / TRAINERS from its row: exact in f32
FACTOR = 0x9E3779B97F4A7C15  # odd: distinct pushes have distinct rows
MARGIN = 25  # steps between the newest step and the last one of a sync run


def ledger_row(trainer, number):
    return (number * TRAINERS + trainer) * FACTOR % LEDGER_ROWS


class Files:
    """The files through which the processes of a run know of each other."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name + ".new"), "w", encoding="utf-8") as file:
            file.write(str(text))
        os.replace(self.path(name + ".new"), self.path(name))

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def journal(self, trainer):
        """Lists of the numbers of pushes that began, and that have a reply."""
        lines = (self.read(f"journal.{trainer}") or "").splitlines()
        return tuple([int(line[2:]) for line in lines if line[0] == kind] for kind in "ba")


def make_model(torch, tables):
    class Model(torch.nn.Module):
        """Two tables of a model, a layer, and the ledger."""

        def __init__(self):
            super().__init__()
            self.bags = tables.EmbeddingBag(ROWS, DIM, "sum", a=0, b=0.1)
            self.vectors = tables.Embedding(ROWS, DIM, a=0, b=0.1)
            self.ledger = tables.Embedding(LEDGER_ROWS, 1, init="constant")
            torch.manual_seed(3)
            self.out = torch.nn.Linear(2 * DIM, 1)

        def forward(self, ids, row):
            both = torch.cat([self.bags(ids), self.vectors(ids[:, 0])], 1)
            return self.out(both)[:, 0], self.ledger(row).sum()

    return Model()


def batch_of(torch, trainer, number):
    generator = torch.Generator().manual_seed(number * TRAINERS + trainer)
    # The square makes small ids frequent.
    ids = (torch.rand(16, 6, generator=generator) ** 2 * ROWS).long()
    return ids, (ids % 3).float().mean(1), torch.tensor([ledger_row(trainer, number)])


def train(trainer, mode, files, servers):
    """A trainer, until the file "last" names its last step or, in a_sync mode, exists."""
    import tandem.torch  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    model = make_model(torch, tandem.torch)
    optimizer = tandem.torch.Optimizer(
        model, "sgd", lr=RATE, mode=mode, servers=servers, job="kills", trainer=trainer,
        trainers=TRAINERS, start_timeout=240, step_timeout=240)
    begun, _ = files.journal(trainer)
    number = optimizer.version if mode == "sync" else max(begun, default=-1) + 1
    with open(files.path(f"journal.{trainer}"), "a", encoding="utf-8", buffering=1) as journal:
        while True:
            last = files.read("last")
            if last is not None and (mode == "a_sync" or number >= int(last)):
                break
            ids, wanted, row = batch_of(torch, trainer, number)
            optimizer.zero_grad()
            scores, pushes = model(ids, row)
            (((scores - wanted) ** 2).mean() * 0.01 + pushes).backward()
            # The next batch without the ledger: the rest of its rows is pulled by the forward call.
            upcoming, _, _ = batch_of(torch, trainer, number + 1)
            model.bags.prefetch(upcoming)
            journal.write(f"b {number}\n")
            optimizer.step()
            journal.write(f"a {number}\n")
            number += 1
            time.sleep(0.002)  # the processors are shared with servers
    files.write(f"done.{trainer}", optimizer.counts()["prefetched"])
    if trainer == 0:
        while any(files.read(f"done.{other}") is None for other in range(TRAINERS)):
            time.sleep(0.01)
        save(optimizer, files.path("end.npz"))
    optimizer.finish()
    files.write(f"finished.{trainer}", "")
    os._exit(0)  # without the exit handlers of the parent


def save(optimizer, path):
    import numpy  # pylint: disable=import-outside-toplevel
    arrays = {f"dense.{name}": value for name, value in optimizer.state().items()}
    for table in ("bags", "vectors", "ledger"):
        arrays[f"ids.{table}"], arrays[f"values.{table}"] = optimizer.rows(table)
    numpy.savez(path, **arrays)


class Run:
    """The servers and trainers of one run."""

    def __init__(self, build, mode, chance):
        from pserver_process import Servers  # pylint: disable=import-outside-toplevel
        self.mode, self.chance = mode, chance
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-kills-")
        self.files = Files(self.folder.name)
        self.servers = Servers(build, SERVERS, "--durability=logged", trainers=TRAINERS,
                               job="kills")
        self.trainers = [None] * TRAINERS
        self.pushes_at_start = [0] * TRAINERS

    def __enter__(self):
        self.servers.__enter__()
        for trainer in range(TRAINERS):
            self.start(trainer)
        return self

    def __exit__(self, *_):
        for process in self.trainers:
            process.kill()
            process.join()
        self.servers.__exit__()
        self.folder.cleanup()

    def start(self, trainer):
        self.pushes_at_start[trainer] = len(self.files.journal(trainer)[1])
        self.trainers[trainer] = multiprocessing.get_context("fork").Process(
            target=train, args=(trainer, self.mode, self.files, list(self.servers.addresses)))
        self.trainers[trainer].start()

    def wait(self, condition, what, seconds=300):
        end = time.monotonic() + seconds
        while not condition():
            for trainer, process in enumerate(self.trainers):
                if process.exitcode not in (None, 0):
                    raise SystemExit(f"trainer {trainer} failed with {process.exitcode}")
            if time.monotonic() > end:
                raise SystemExit(f"{what}: not within {seconds} s")
            time.sleep(0.002)

    def pushes(self, trainer):
        return len(self.files.journal(trainer)[1])

    def kill_one(self):
        """Kills a random process, or a server and a trainer, and starts it again. Returns the names
        and the number of kills."""
        victims = self.chance.choice([["server"], ["trainer"], ["trainer"], ["server", "trainer"]])
        names = []
        trainer, server = self.chance.randrange(TRAINERS), self.chance.randrange(SERVERS)
        if "trainer" in victims:  # a trainer that has trained since its start
            self.wait(lambda: self.pushes(trainer) > self.pushes_at_start[trainer], "a push")
        time.sleep(self.chance.random() * 0.2)
        if "server" in victims:
            self.servers.kill(server)
            names.append(f"server {server}")
        if "trainer" in victims:
            self.trainers[trainer].kill()
            self.trainers[trainer].join()
            names.append(f"trainer {trainer}")
        time.sleep(self.chance.random() * 0.1)
        if "trainer" in victims:
            self.start(trainer)
        if "server" in victims:
            self.servers.start(server)
        return names

    def finish(self, last):
        """Ends the trainers after step `last`. Returns the arrays that trainer 0 wrote."""
        import numpy  # pylint: disable=import-outside-toplevel
        self.files.write("last", last)
        self.wait(lambda: all(self.files.read(f"finished.{i}") is not None
                              for i in range(TRAINERS)), "the end", 900)
        with numpy.load(self.files.path("end.npz")) as arrays:
            return dict(arrays)


def counts_of(end):
    """How often each row of the ledger was pushed, by row."""
    counts = end["values.ledger"][:, 0] / (-RATE / TRAINERS)
    return dict(zip(end["ids.ledger"].tolist(), counts.tolist()))


def account(counts, begun, replied):
    """Compares the ledger with the pushes (trainer, number). Returns lost, doubled, unexplained."""
    rows = {ledger_row(*push) for push in begun}
    lost = sum(counts.get(ledger_row(*push), 0) < 1 for push in replied)
    doubled = sum(counts.get(row, 0) > 1 for row in rows)
    odd = sum(count != 1 for count in counts.values()) + len(set(counts) - rows)
    return lost, doubled, odd


def run_kills(build, mode, kills, chance, say):
    """Returns (last step or None, arrays at the end, lost, doubled, unexplained)."""
    done, begin = {"server": 0, "trainer": 0}, time.monotonic()
    with Run(build, mode, chance) as run:
        while sum(done.values()) < kills:
            for name in run.kill_one():
                done[name.split()[0]] += 1
        for trainer in range(TRAINERS):
            run.wait(lambda t=trainer: run.pushes(t) > run.pushes_at_start[t], "a push")
        journals = [run.files.journal(i) for i in range(TRAINERS)]
        last = max(max(begun) for begun, _ in journals) + MARGIN
        end = run.finish(last)
        journals = [run.files.journal(i) for i in range(TRAINERS)]
        ahead = sum(int(run.files.read(f"done.{i}")) for i in range(TRAINERS))
    begun = {(i, n) for i, (numbers, _) in enumerate(journals) for n in numbers}
    if mode == "sync":
        replied = {(i, n) for i in range(TRAINERS) for n in range(last)}
        begun |= replied
    else:
        replied = {(i, n) for i, (_, numbers) in enumerate(journals) for n in numbers}
    lost, doubled, odd = account(counts_of(end), begun, replied)
    say(f"| {mode} | {done['server']} | {done['trainer']} | {len(begun)} | {len(replied)} | "
        f"{len(begun - replied)} | {lost} | {doubled} | {odd} | {ahead} | "
        f"{time.monotonic() - begin:.0f} |")
    # Rows that were requested ahead are part of what the run shows. In a_sync mode a trainer may end
    # right after its restart.
    unused = mode == "sync" and ahead == 0
    if unused:
        say("no forward call used rows that were requested ahead")
    return last, end, lost + doubled + odd + unused


def same_bits(build, last, end):
    """Whether a run without kills ends with the same bits."""
    with Run(build, "sync", random.Random(0)) as run:
        undisturbed = run.finish(last)
    different = [name for name in end if end[name].tobytes() != undisturbed[name].tobytes()]
    return different


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    given = parser.parse_args(argv)
    sys.path.insert(0, os.path.join(given.build, "python"))
    import tandem.torch.tables  # pylint: disable=import-outside-toplevel,unused-import
    print(f"torch_tables.py: {given.kills} kills, seed {given.seed}\n"
          "| mode | killed servers | killed trainers | pushes | with a reply | without | lost | "
          "doubled | unexplained | rows ahead | s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
          flush=True)
    chance, failures = random.Random(given.seed), 0
    for mode, kills in (("a_sync", given.kills // 2), ("sync", given.kills - given.kills // 2)):
        last, end, wrong = run_kills(os.path.abspath(given.build), mode, kills, chance,
                                     lambda line: print(line, flush=True))
        failures += wrong
    different = same_bits(os.path.abspath(given.build), last, end)
    print(f"sync, {last} steps: " + (f"other bits in {', '.join(different)}" if different else
                                     "the bits of a run without kills"))
    return 1 if failures or different else 0


if __name__ == "__main__":
    sys.exit(main())
