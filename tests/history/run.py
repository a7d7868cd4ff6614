"""Runs random clients against real pservers with faults, and checks the recorded histories.

  tests/history/run.py --build=build [--seed=N] [--seconds=N] [--rounds=N] [--mode=a_sync|sync]
      [--program=FILE] [--out=DIR]
  tests/history/run.py --build=build --check=FILE

Each round draws its plan from its seed. A violation is printed with the heading of
docs/project/guarantees.md, and the history is kept in --out."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

import plan as plans

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
_parser = argparse.ArgumentParser(description=__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
_parser.add_argument("--build", default="build")
_parser.add_argument("--source", default=".")
_parser.add_argument("--seed", type=int)
_parser.add_argument("--seconds", type=float, default=10)
_parser.add_argument("--rounds", type=int, default=1)
_parser.add_argument("--mode", choices=("a_sync", "sync"))
_parser.add_argument("--workload", default="raw", choices=(*plans.WORKLOADS, "all"))
_parser.add_argument("--faults", help="faults instead of those of the seed, with commas")
_parser.add_argument("--program", help="instead of build/bin/tandem-pserver")
_parser.add_argument("--out", default="/tmp/tandem-history")
_parser.add_argument("--check", help="only checks this history")
_parser.add_argument("--keep", action="store_true", help="keeps histories without violations too")
OPTIONS = _parser.parse_args() if __name__ == "__main__" else _parser.parse_args([])
sys.path.insert(0, os.path.join(OPTIONS.build, "python"))

# pylint: disable=wrong-import-position
import all_checkers
import history
import properties
from clients import Trainer
from faults import Faults
from operators import Operator
from product import Mover, ProductTrainer
from readers import Follower, Reader
from servers import Died, Server
from standbys import StandbyFaults, StandbyJob
from sync_trainers import SyncTrainer
from clients import World


class Round:
    """One run of one plan: servers, clients and faults, then the last reads."""

    def __init__(self, plan, build, seconds, program=None):
        self.plan, self.seconds = plan, seconds
        self.bin = os.path.join(os.path.abspath(build), "bin")
        self.bin = os.environ.get("TANDEM_BIN_DIR", self.bin)
        self.program = program or os.path.join(self.bin, "tandem-pserver")
        self.folder = tempfile.mkdtemp(prefix="tandem-history-")
        self.servers, self.clients = [], []
        self.world, self.followers, self.job = None, [], None

    def run(self):
        """Returns the history."""
        count = self.plan.get("real_servers", self.plan["servers"])
        for i in range(0 if self.plan["workload"] == "standbys" else count):
            self.servers.append(Server(i, self.program, self.folder, self.plan))
        self.world = World(self.plan, [s.proxy.address for s in self.servers], self.seconds)
        try:
            for server in self.servers:
                server.start()
            if self.plan["workload"] == "standbys":
                self.job = StandbyJob(self.folder, self.bin, self.program, self.plan)
            self.train()
            self.last_reads()
        except Died as error:
            event = self.world.recorder.begin("faults", "died", error=str(error)[-2000:])
            self.world.recorder.end(event, "ok")
        finally:
            if self.job:
                self.job.close()
            for server in self.servers:
                server.close()
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.world.recorder.history()

    def make_clients(self, quiet):
        kind = SyncTrainer if self.plan["mode"] == "sync" else Trainer
        self.clients = [kind(self.world, i) for i in range(self.plan["trainers"])]
        self.clients += [Reader(self.world, i) for i in range(self.plan["readers"])]
        self.clients.append(Operator(self.world, os.path.join(self.bin, "tandem"), quiet,
                                     [s.address for s in self.servers]))
        self.followers = [Follower(self.world, i, table) for i in range(self.plan["servers"])
                          for table in self._tables()]

    def make_product_clients(self):
        first = self.servers[:2] if self.plan["workload"] == "moves" else self.servers
        self.world.addresses = (self.job.addresses if self.job
                                else [server.address for server in first])
        secret = self.job.secret if self.job else ""
        self.clients = [ProductTrainer(self.world, i, secret)
                        for i in range(self.plan["trainers"])]
        if not self.job:
            self.clients.append(Mover(self.world, os.path.join(self.bin, "tandem"),
                                      self.servers))

    def train(self):
        quiet = threading.Lock()
        if self.plan["workload"] == "raw":
            self.make_clients(quiet)
        else:
            self.make_product_clients()
        faults = StandbyFaults(self.world, self.job) if self.job else Faults(
            self.world, self.servers, quiet)
        for thread in (*self.clients, *self.followers, faults):
            thread.start()
        time.sleep(self.seconds)
        faults.end()
        if faults.failure:
            raise faults.failure
        time.sleep(0.3)
        self.world.stop.set()
        for thread in (*self.clients, *self.followers):
            thread.join(60)
            if thread.is_alive():
                self.world.failures.append((thread.name, "does not end"))
        if self.world.failures:
            raise RuntimeError(f"a client of the test failed: {self.world.failures}")

    def _tables(self):
        return ("rows", "fading") if self.plan["mode"] == "a_sync" else ("rows",)

    def last_reads(self):
        """Reads all states without faults, also after a restart of each server."""
        if self.plan["workload"] != "raw":
            self._read_by_trainers()
            return
        self.world.addresses = [s.proxy.address for s in self.servers]
        reader = Reader(self.world, 99)
        for follower in self.followers:
            for _ in range(400):
                if follower.fetch(0):
                    break
                time.sleep(0.01)
        self._read_all(reader)
        for server in self.servers:
            server.kill()
            server.start()
        self._read_all(reader)

    def _read_by_trainers(self):
        """All trainers read at once, since a server may need the kept values of all of them."""
        trainers = [c for c in self.clients if isinstance(c, ProductTrainer)]
        for trainer in trainers:
            if trainer.client is None:
                trainer.begin()
        trainers = [trainer for trainer in trainers if trainer.client]
        for _ in range(2):
            if not any(self._at_once(trainers) or self._at_once(trainers)):
                raise Died("no trainer can read after the end of the faults")
            for server in self.servers:
                server.kill()
                server.start()
        self._at_once(trainers)
        for trainer in trainers:
            trainer.end()

    @staticmethod
    def _at_once(trainers):
        """Whether each trainer's read succeeded."""
        done = [False] * len(trainers)

        def read(i):
            trainer = trainers[i]
            # Sync: servers may be in the middle of a step, which has no state of rows.
            done[i] = trainer.read() if not trainer.sync or trainer.find_version() else True

        threads = [threading.Thread(target=read, args=(i,)) for i in range(len(trainers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return done if any(done) else []

    def _read_all(self, reader):
        for server in range(self.plan["servers"]):
            for _ in range(50):
                if reader.pull_all(server, 10.0)[0] is not None:
                    break
                time.sleep(0.1)
            for table in self._tables():
                reader.pull_table(server, table, 10.0)


def report(found, recorded, out):
    """Prints violations with the events that show them, and keeps the history."""
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, f"history-{recorded.plan['seed']}.jsonl")
    recorded.save(path)
    start = recorded.events[0]["begin"] if recorded.events else 0
    for violation in found[:5]:
        print(f'VIOLATION of "{violation.promise}" (docs/project/guarantees.md): {violation.text}')
        for event in violation.events[-12:]:
            print("    " + history.line_of(event, start)[:400])
    print(f"{len(found)} violations; seed {recorded.plan['seed']}; plan {recorded.plan}\n"
          f"history: {path}", flush=True)


def one_round(seed, options, reached):
    """Returns the number of violations of one seed."""
    faults = options.faults.split(",") if options.faults else None
    workload = options.workload
    if workload == "all":
        workload = random.Random(seed).choice(plans.WORKLOADS)
    plan = plans.draw(seed, options.mode, faults, workload)
    began = time.monotonic()
    recorded = Round(plan, options.build, options.seconds, options.program).run()
    found = all_checkers.check(recorded)
    reached.count(recorded)
    print(f"seed {seed}: {plan['workload']} {plan['mode']}, "
          f"{plan.get('real_servers', plan['servers'])} servers, {plan['trainers']} trainers, "
          f"faults {','.join(plan['faults'])}: {len(recorded.events)} events, {len(found)} "
          f"violations, {time.monotonic() - began:.1f} s", flush=True)
    if found or options.keep:
        report(found, recorded, options.out)
    return len(found)


def main(options):
    if options.check:
        recorded = history.load(options.check)
        found = all_checkers.check(recorded)
        report(found, recorded, options.out)
        return 1 if found else 0
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    print(f"first seed: {seed}", flush=True)
    reached, bad = properties.Reached(), 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for i in range(options.rounds):
            bad += one_round(seed + i, options, reached) > 0
    except KeyboardInterrupt:  # the summary of the rounds until now
        pass
    print(reached.text())
    print(f"{reached.rounds} rounds from seed {seed}, {bad} with violations", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(OPTIONS))
