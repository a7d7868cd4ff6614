#!/usr/bin/env python3
"""Measures the time from the arrival of training records until readers have what was learned.

    tests/bench/stream_to_serve.py [--build=build] [--files=200] [--rate=10] [--standbys=0]

A job with one pserver and one trainer trains on files that arrive in a directory (data.stream), one
batch of 16 records in each file. Each record has its own row of a table. A read replica follows the
pserver. The time runs from the rename of a file to its final name until
- a follower of the replica (tandem.ps.Follower) has all rows of the file, and
- a Redis client of the replica gets a value of its last row.
Prints JSON: quantiles in milliseconds.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

RECORDS = 16  # records of a batch, and of a file
HEIGHT = 1 << 24
PROGRAM = """
name: "count"
var { name: "ids" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "values" kind: DATA dims: -1 dims: 1 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "rows" kind: PARAM dims: %d dims: 1 }
var { name: "steps" kind: PARAM dims: 1 dims: 1 }
op {
  type: "lookup_table"
  input { slot: "Ids" var: "ids" }
  input { slot: "W" var: "rows" }
  output { slot: "Out" var: "found" }
  attr { name: "is_sparse" b: true }
  attr { name: "is_distributed" b: true }
}
op {
  type: "fc"
  input { slot: "Input" var: "values" }
  input { slot: "W" var: "steps" }
  output { slot: "Out" var: "count" }
}
op {
  type: "elementwise_add"
  input { slot: "X" var: "found" }
  input { slot: "Y" var: "count" }
  output { slot: "Out" var: "sum" }
}
op { type: "mean" input { slot: "X" var: "sum" } output { slot: "Out" var: "loss" } }
loss: "loss"
""" % HEIGHT
JOB = """
name: "stream"
model { program: "count.pbtxt" }
data {
  format: "libsvm"
  dir: "."
  libsvm { ids: %d features_max: 1 }
  stream { folder: "records" epoch_steps: 100000 }
}
optimizer { type: "sgd" learning_rate: 16 }
batch_size: %d
strategy { a_sync: true }
""" % (HEIGHT, RECORDS)


def until(get, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = get()
        if value:
            return value
        time.sleep(0.02)
    raise SystemExit(f"stream_to_serve: error: {what} within {seconds} s")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def quantiles(seconds):
    ordered = sorted(seconds)
    at = lambda share: round(1e3 * ordered[int(share * (len(ordered) - 1))], 2)
    return {"p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1)}


class Redis:
    """A client that reads one value at a time."""

    def __init__(self, address, secret):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.file = self.socket.makefile("rb")
        if secret:
            assert self.call("AUTH", secret) == "OK"

    def call(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
        line = self.file.readline().decode().rstrip()
        if line.startswith("-"):
            raise SystemExit("stream_to_serve: error: " + line)
        if not line.startswith("$"):
            return line[1:]
        size = int(line[1:])
        return None if size < 0 else self.file.read(size + 2)[:-2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rate", type=float, default=10, help="files per second")
    parser.add_argument("--standbys", type=int, default=0)
    args = parser.parse_args()
    sys.path.insert(0, os.path.join(args.build, "python"))
    import tandem.ps  # pylint: disable=import-outside-toplevel
    bin_dir = os.path.abspath(os.path.join(args.build, "bin"))
    with tempfile.TemporaryDirectory(prefix="tandem-stream-") as folder:
        os.mkdir(os.path.join(folder, "records"))
        for name, text in (("count.pbtxt", PROGRAM), ("job.pbtxt", JOB)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        command = [os.path.join(bin_dir, "tandemrun"), "--servers=1", "--workers=1", "--log_dir=log",
                   "--pserver_data_dir=state", "--durability=logged"]
        if args.standbys:
            command += [f"--standbys={args.standbys}", "--max_restarts=1000"]
        with open(os.path.join(folder, "out"), "w", encoding="utf-8") as out:
            # pylint: disable=consider-using-with
            job = subprocess.Popen([*command, "job.pbtxt"], cwd=folder, stdout=out, stderr=out)
            replica = None
            try:
                replica, result = measure(args, folder, bin_dir, tandem.ps)
                print(json.dumps(result))
            except SystemExit:
                print(read(os.path.join(folder, "out")), file=sys.stderr)
                raise
            finally:
                for process in (replica, job):
                    if process is not None:
                        process.terminate()
                        process.wait()


def measure(args, folder, bin_dir, ps):
    """Returns the process of the replica, and the result."""
    add_file(folder, 0)  # the servers have initial values after the first batch
    record = until(lambda: json.loads(read(os.path.join(folder, "log/job.json")) or "{}"), 60,
                   "tandemrun did not start the job")
    secret_file = os.path.join(folder, "log/job.secret")
    secret = until(lambda: read(secret_file).strip(), 60, "there is no secret")
    log = os.path.join(folder, "replica.log")
    with open(log, "w", encoding="utf-8") as out:
        # pylint: disable-next=consider-using-with
        replica = subprocess.Popen(
            [os.path.join(bin_dir, "tandem-pserver"), f"--replica_of={record['pservers']}",
             "--index=0", f"--job={record['job']}", "--durability=logged",
             f"--data_dir={folder}/replica", "--listen=127.0.0.1:0", "--resp_listen=127.0.0.1:0"],
            env={**os.environ, "TANDEM_SECRET_FILE": secret_file}, stdout=out, stderr=out)
    word = lambda text: next((line.split(text, 1)[1].split()[0] for line in read(log).splitlines()
                              if text in line), None)
    redis_address = until(lambda: word("answers Redis clients on "), 60,
                          "the replica does not listen")
    address = until(lambda: word("listening on "), 60, "the replica does not listen")
    written, followed, served = [0.0] * args.files, [0.0] * args.files, [0.0] * args.files

    def follow():
        left = {f: set(range(f * RECORDS, (f + 1) * RECORDS)) for f in range(args.files)}
        for change in ps.follow([address], "rows", job=record["job"], secret=secret):
            now = time.monotonic()
            for row in change.ids.tolist():
                rest = left.get(row // RECORDS)
                if rest is not None:
                    rest.discard(row)
                    if not rest:
                        followed[row // RECORDS] = now
                        del left[row // RECORDS]
            if not left:
                return

    def serve():
        client = Redis(redis_address, secret)
        for f in range(args.files):
            key = f"rows:{(f + 1) * RECORDS - 1}"
            while client.call("EXISTS", key) != "1":
                time.sleep(0.001)
            served[f] = time.monotonic()

    readers = [threading.Thread(target=target, daemon=True) for target in (follow, serve)]
    for thread in readers:
        thread.start()
    begun = time.monotonic()
    for f in range(1, args.files):
        time.sleep(max(0.0, begun + f / args.rate - time.monotonic()))
        written[f] = add_file(folder, f)
    for thread in readers:
        thread.join(120)
        if thread.is_alive():
            raise SystemExit("stream_to_serve: error: readers do not get all rows within 120 s")
    return replica, {
        "files": args.files - 1, "files_per_s": args.rate, "standbys": args.standbys,
        "follower": quantiles([followed[f] - written[f] for f in range(1, args.files)]),
        "redis": quantiles([served[f] - written[f] for f in range(1, args.files)]),
    }


def add_file(folder, number):
    """Adds a file with the records whose ids follow those of file `number` - 1. Returns the time."""
    path = os.path.join(folder, "records", f"{number:08d}")
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.writelines(f"0 {number * RECORDS + i}:1\n" for i in range(RECORDS))
    os.rename(path + ".tmp", path)
    return time.monotonic()


if __name__ == "__main__":
    main()
