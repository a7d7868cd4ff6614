#!/usr/bin/env python3
"""PaddlePaddle beside Tandem on CPU, in one alternating run: whole trainings on real data.

usage: tests/bench/paddle_side_by_side.py --paddle=PYTHON --adult=DIR [--fashion=DIR]
         [--build=build] [--rounds=5] [--rows=NAME,NAME] [--threads=2] [--kill]

PYTHON is the interpreter of an environment with paddlepaddle. Each network trains in one process with
`--threads` threads, and on 2 ranks with half as many each (at least one): Tandem's mode collective, and Paddle's DataParallel
over gloo. Both sides have the same network, samples, batch, optimizer and rate. Paddle first tries its
settings (eager or to_static, with oneDNN or without, sparse gradients of tables) on one process, and
then runs with the fastest. Its samples are arrays in memory; Tandem's job reads the files.

  lenet, 28x28         Fashion-MNIST (Debian's package dataset-fashion-mnist)
  resnet18, 3x32x32    the same images with a border and three equal channels, as CIFAR-10's files
  wide_deep, deepfm    Adult (UCI): DIR has adult.data and adult.test, names in their first lines

--kill: trains LeNet on 2 ranks on each side, kills rank 1, and prints what happens. The table has
medians over the rounds. Exit code 0: Tandem has at least 1.5 times Paddle's speed in each row."""

import argparse
import csv
import gzip
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import machine
from jobs import run_job
from runner import HERE, ROOT, Failed, progress

RATIO_MIN = 1.5
TIMEOUT_S = 300  # of a run of Paddle
TRAIN_S, KILL_WAIT_S = 12, 150  # before a trainer is killed, and after that
MEAN, DEVIATION = 0.2860, 0.3530  # of trainer/reader/mnist.h
COLOUR_MEAN, COLOUR_DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # cifar.cc
RESNET_FILE, RESNET_TEST = 384, 500  # images in each of five files, and for the test
# Columns of Adult: name, whether it is a number, ids (the first one: missing or unknown).
COLUMNS = (
    ("age", True, 33), ("workclass", False, 12), ("fnlwgt", True, 9), ("education", False, 18),
    ("education-num", True, 17), ("marital-status", False, 9), ("occupation", False, 17),
    ("relationship", False, 8), ("race", False, 7), ("sex", False, 4), ("capital-gain", True, 65),
    ("capital-loss", True, 33), ("hours-per-week", True, 23), ("native-country", False, 46))

ADULT = """format: "csv" dir: "{dir}" csv {{
  train_file: "adult.data" test_file: "adult.test" label_column: "income"
  positive_label: ">50K" positive_label: ">50K." negative_label: "<=50K" negative_label: "<=50K."
  {columns} }}"""
IMAGES = 'arg { name: "classes" value: "10" }'


class Row:
    """A training: `batch` samples a step over all ranks; `data`: fields of DataConfig."""

    def __init__(self, zoo, args, data, batch, epochs, rate, optimizer):
        self.batch, self.epochs, self.rate = batch, epochs, rate
        self.job = (f'name: "{zoo}" model {{ zoo: "{zoo}" {args} }} data {{ {data} }} '
                    f'optimizer {{ type: "{optimizer}" learning_rate: {rate} '
                    f'{"" if optimizer == "momentum" or zoo == "lenet" else "l2_decay: 1e-5"} }} '
                    f'global_batch_size: {batch} epochs: {epochs} eval_every_epochs: 0 '
                    'checkpoint { dir: "" } seed: 1')


def table_of_rows(given, folder):
    columns = " ".join(f'column {{ name: "{name}" {"kind: NUMERIC" if number else ""} ids: {ids} }}'
                       for name, number, ids in COLUMNS)
    adult = ADULT.format(dir=os.path.abspath(given.adult), columns=columns)
    click = ('arg { name: "fields" value: "14" } arg { name: "dim" value: "8" } '
             f'arg {{ name: "rows" value: "{sum(ids for _, _, ids in COLUMNS)}" }} '
             'arg { name: "hidden" value: "64,32" }')
    return {
        "lenet": Row("lenet", "", f'format: "mnist" dir: "{given.fashion}"', 128, 1, 0.001, "adam"),
        "resnet18": Row("resnet18", 'arg { name: "image" value: "3,32,32" } '
                        'arg { name: "stem" value: "3" } ' + IMAGES,
                        f'format: "cifar10" dir: "{folder}"', 32, 1, 0.01, "momentum"),
        "wide_deep": Row("wide_deep", click, adult, 256, 5, 0.001, "adam"),
        "deepfm": Row("deepfm", click, adult, 256, 5, 0.001, "adam"),
    }


# ---- Data: arrays for Paddle, and files in the form of CIFAR-10 for Tandem ----

def idx(path):
    with gzip.open(path + ".gz", "rb") as file:
        content = file.read()
    dims = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(dims)).reshape(dims.astype(int))


def fashion(folder):
    """(images, labels) for the training, and for the test."""
    return [(idx(os.path.join(folder, name + "-images-idx3-ubyte")),
             idx(os.path.join(folder, name + "-labels-idx1-ubyte"))) for name in ("train", "t10k")]


def scaled(images, mean, deviation):
    return ((images.astype(np.float32) / 255 - mean) / deviation).astype(np.float32)


def labels_of(labels):
    return labels.astype(np.int64).reshape(-1, 1)


def write_cifar(parts, folder):
    """Writes the files, and returns the arrays of the training and of the test."""
    (train, train_labels), (test, test_labels) = parts
    count = 5 * RESNET_FILE
    arrays = []
    for images, labels, names in (
            (train[:count], train_labels[:count], [f"data_batch_{k}.bin" for k in range(1, 6)]),
            (test[:RESNET_TEST], test_labels[:RESNET_TEST], ["test_batch.bin"])):
        wide = np.pad(images, ((0, 0), (2, 2), (2, 2)))[:, None].repeat(3, 1)
        records = np.concatenate([labels[:, None], wide.reshape(len(wide), -1)], 1)
        for name, piece in zip(names, np.array_split(records, len(names))):
            piece.astype(np.uint8).tofile(os.path.join(folder, name))
        by_channel = np.array(COLOUR_MEAN).reshape(3, 1, 1), np.array(COLOUR_DEVIATION).reshape(3, 1, 1)
        arrays.append((scaled(wide, *by_channel), labels_of(labels)))
    return arrays


def bounds_of(numbers, buckets):
    """The first number of each bucket but the first, as trainer/reader/csv_columns.cc."""
    numbers, at, out = np.sort(numbers), 0, []
    for left in range(buckets, 1, -1):
        if at >= len(numbers):
            break
        at += max((len(numbers) - at) // left, 1)
        while at < len(numbers) and numbers[at] == numbers[at - 1]:
            at += 1
        if at < len(numbers):
            out.append(numbers[at])
    return np.array(out, np.float32)


def adult_ids(folder):
    tables = []
    for name in ("adult.data", "adult.test"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if len(line) > 1]
        head = lines[0]
        tables.append(({key: [line[k] for line in lines[1:]] for k, key in enumerate(head)}))
    out, first = [[], []], 0
    for name, number, ids in COLUMNS:
        if number:
            bounds = bounds_of(np.array(tables[0][name], np.float32), ids - 1)
            for k, table in enumerate(tables):
                values = np.array(table[name], np.float32)
                out[k].append(first + 1 + np.searchsorted(bounds, values, "right"))
        else:
            texts, counts = np.unique(tables[0][name], return_counts=True)
            order = sorted(zip(-counts, texts))[:ids - 1]
            known = {text: k + 1 for k, (_, text) in enumerate(order)}
            for k, table in enumerate(tables):
                out[k].append(first + np.array([known.get(text, 0) for text in table[name]]))
        first += ids
    return [(np.stack(columns, 1).astype(np.int64),
             np.array([[text.startswith(">50K")] for text in table["income"]], np.int64))
            for columns, table in zip(out, tables)]


def write_arrays(given, folder, names):
    """Writes NAME.npz of each network of `names` into the folder, and the files of resnet18."""
    parts = fashion(given.fashion) if {"lenet", "resnet18"} & set(names) else None
    click = adult_ids(given.adult) if {"wide_deep", "deepfm"} & set(names) else None
    for name in names:
        if name == "lenet":
            arrays = [(scaled(images[:, None], MEAN, DEVIATION), labels_of(labels))
                      for images, labels in parts]
        else:
            arrays = write_cifar(parts, folder) if name == "resnet18" else click
        (x, y), (x_test, y_test) = arrays
        np.savez(os.path.join(folder, name + ".npz"), x_train=x, y_train=y, x_test=x_test,
                 y_test=y_test)


# ---- The two sides ----

def run_group(command, environment, work, timeout_s):
    """Runs a launcher. Returns its exit code, stdout and stderr. After the time limit, kills the
    launcher and all processes of its group, and raises subprocess.TimeoutExpired."""
    with subprocess.Popen(command, env=environment, cwd=work, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, start_new_session=True) as launcher:
        try:
            out, err = launcher.communicate(timeout=timeout_s)
        except BaseException:
            kill_group(launcher)
            raise
        return launcher.returncode, out, err


def kill_group(launcher):
    try:
        os.killpg(launcher.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Sides:
    def __init__(self, given, folder, rows):
        self.folder, self.rows, self.paddle_python = folder, rows, given.paddle
        self.threads = given.threads
        self.bin = os.path.join(os.path.abspath(given.build), "bin")

    def job_file(self, name):
        path = os.path.join(self.folder, name + ".pbtxt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.rows[name].job)
        return path

    def tandem(self, name, ranks):
        launch = ["--mode=local"] if ranks == 1 else ["--mode=collective", f"--nproc={ranks}"]
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            result = run_job(self.bin, launch, self.job_file(name), work,
                             [f"--threads={max(1, self.threads // ranks)}"])
        row = self.rows[name]
        samples = result["steps"] * row.batch
        seconds = samples / result["images_per_s"] + result["data_wait_seconds"]
        quality = result["auc"] if "auc" in result else result["accuracy"]
        return {"samples_per_s": samples / seconds, "quality": quality}

    def paddle_command(self, name, ranks, variant, work, *more):
        row = self.rows[name]
        launch = [self.paddle_python]
        if ranks > 1:
            launch += ["-m", "paddle.distributed.launch", f"--nproc_per_node={ranks}",
                       "--backend=gloo", f"--log_dir={work}/log"]
        return [*launch, os.path.join(HERE, "peer_paddle.py"), name,
                f"--data={self.folder}/{name}.npz", f"--batch={row.batch}",
                f"--epochs={row.epochs}", f"--rate={row.rate}", f"--out={work}/result.json",
                "--variant=" + variant.replace("+onednn", ""), *more]

    def paddle_environment(self, ranks, variant):
        threads = str(max(1, self.threads // ranks))
        return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
                "FLAGS_use_mkldnn": "1" if "+onednn" in variant else "0", "GLOG_minloglevel": "2"}

    def paddle(self, name, ranks, variant, *more):
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            command = self.paddle_command(name, ranks, variant, work, *more)
            try:
                code, out, err = run_group(command, self.paddle_environment(ranks, variant), work,
                                           TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise Failed(f"Paddle, {name}, {ranks} ranks, {variant}: no end within {TIMEOUT_S} s"
                             ) from error
            path = os.path.join(work, "result.json")
            if code != 0 or not os.path.exists(path):
                raise Failed(f"Paddle, {name}, {ranks} ranks, {variant}: exit {code}\n"
                             f"{out[-1500:]}\n{err[-1500:]}")
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def best_variant(self, name):
        """Tries all settings once. Returns the fastest and all speeds."""
        variants = [way + one for way in ("eager", "static") for one in ("", "+onednn")]
        if name in ("wide_deep", "deepfm"):
            variants += ["eager+sparse"]
        speeds = {}
        for variant in variants:
            try:
                speeds[variant] = round(
                    self.paddle(name, 1, variant, "--steps=40", "--epochs=1")["samples_per_s"])
            except Failed as error:
                speeds[variant] = str(error).strip().splitlines()[-1][:200]
            progress(f"{name}: Paddle with {variant}: {speeds[variant]}")
        able = [name for name in speeds if isinstance(speeds[name], int)]
        if not able:
            raise Failed(f"Paddle trains {name} with no setting: {speeds}")
        return max(able, key=lambda variant: speeds[variant]), speeds


def compare(sides, names, rounds):
    """Prints a row for each network and number of ranks. Returns whether all meet the goal."""
    rows, met, notes = [], True, []
    for name in names:
        variant, speeds = sides.best_variant(name)
        notes.append(f"{name}: Paddle with {variant}; samples/s of its settings: {speeds}")
        for ranks in (1, 2):
            found = {"tandem": [], "paddle": []}
            for index in range(rounds):
                progress(f"{name}, {ranks} ranks: round {index + 1} of {rounds}")
                found["tandem"].append(sides.tandem(name, ranks))
                found["paddle"].append(sides.paddle(name, ranks, variant))
            version = found["paddle"][0]["version"]
            of = {side: {key: [run[key] for run in runs] for key in ("samples_per_s", "quality")}
                  for side, runs in found.items()}
            mine, theirs = (statistics.median(of[side]["samples_per_s"]) for side in found)
            quality = [statistics.median(of[side]["quality"]) for side in found]
            met = met and mine / theirs >= RATIO_MIN
            rows.append(f"| {name}, {ranks} process{'es' if ranks > 1 else ''} | {mine:,.0f} | "
                        f"{theirs:,.0f} | {mine / theirs:.2f}"
                        f"{'' if mine / theirs >= RATIO_MIN else ': missed'} | "
                        f"{quality[0]:.4f} | {quality[1]:.4f} |")
            spread = {side: [round(v) for v in of[side]["samples_per_s"]] for side in found}
            notes.append(f"{name}, {ranks}: all rounds {spread}")
            print(rows[-1], flush=True)
    print(f"PaddlePaddle {version}\n| training | Tandem, samples/s | Paddle, samples/s | ratio | "
          "quality Tandem | quality Paddle |\n|---|--:|--:|--:|--:|--:|")
    print(*rows, *notes, sep="\n")
    return met


# ---- A killed trainer ----

def children(pid):
    """Processes that descend from `pid`, as (pid, command line)."""
    done = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in done.stdout.splitlines()[1:]]
    parents, out = {pid}, []
    for _ in range(4):
        for row in rows:
            if int(row[1]) in parents and int(row[0]) not in parents:
                parents.add(int(row[0]))
                out.append((int(row[0]), row[2]))
    return out


def trainers(launcher, of_rank):
    return [pid for pid, args in children(launcher.pid)
            if of_rank in args and "distributed.launch" not in args]


def wait_for_two(launcher, of_rank):
    """Waits for two trainers, and some seconds more. Returns their processes."""
    end = time.monotonic() + 60
    while time.monotonic() < end and len(trainers(launcher, of_rank)) < 2:
        time.sleep(0.2)
    time.sleep(TRAIN_S)
    return trainers(launcher, of_rank)


def kill_one(title, command, environment, work, of_rank):
    """Kills the last process whose command has `of_rank`, some seconds after its start."""
    with open(os.path.join(work, "output.txt"), "w+", encoding="utf-8") as output:
        launcher = subprocess.Popen(command, stdout=output, stderr=output, cwd=work, env=environment,
                                    start_new_session=True)
        try:
            ranks = wait_for_two(launcher, of_rank)
            if len(ranks) < 2:
                output.seek(0)
                raise Failed(f"{title}: {len(ranks)} trainers run: {output.read()[-2000:]}")
            os.kill(ranks[-1], signal.SIGKILL)
            begin = time.monotonic()
            try:
                status = launcher.wait(timeout=KILL_WAIT_S)
                end = f"the launcher ended with {status} after {time.monotonic() - begin:.1f} s"
            except subprocess.TimeoutExpired:
                left = trainers(launcher, of_rank)
                end = f"the launcher still ran after {KILL_WAIT_S} s, with {len(left)} trainers"
        finally:
            kill_group(launcher)
        output.seek(0)
        print(f"{title}: killed trainer {len(ranks) - 1} of {len(ranks)}: {end}\n"
              f"{output.read()[-1500:]}\n", flush=True)


def kill(sides):
    """Kills a trainer of each side while it trains LeNet."""
    sides.rows["lenet"].job = sides.rows["lenet"].job.replace("epochs: 1 ", "epochs: 15 ")
    sides.rows["lenet"].epochs = 15
    job = sides.job_file("lenet")
    tandemrun = os.path.join(sides.bin, "tandemrun")
    for title, flags in (("Tandem", []), ("Tandem, --max_restarts=1", ["--max_restarts=1"])):
        with tempfile.TemporaryDirectory(dir=sides.folder) as work:
            kill_one(title, [tandemrun, "--mode=collective", "--nproc=2", *flags,
                             f"--log_dir={work}/log", job, "--", "--threads=1",
                             "--checkpoint.dir=" + work + "/checkpoints",
                             "--checkpoint.every_steps=500"],
                     dict(os.environ), work, "tandem-trainer")
    with tempfile.TemporaryDirectory(dir=sides.folder) as work:
        kill_one("Paddle", sides.paddle_command("lenet", 2, "eager", work),
                 sides.paddle_environment(2, "eager"), work, "peer_paddle.py lenet")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paddle", required=True, metavar="PYTHON")
    parser.add_argument("--adult", required=True, metavar="DIR")
    parser.add_argument("--fashion", default="/usr/share/datasets/fashion-mnist", metavar="DIR")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="lenet,resnet18,wide_deep,deepfm")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="kill a trainer instead of comparing")
    given = parser.parse_args()
    print(f"{machine.describe()}; commit {machine.commit(ROOT)}; {machine.today()}", flush=True)
    other = machine.OtherWork()
    with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
        rows = table_of_rows(given, folder)
        names = given.rows.split(",")
        if given.rounds < 1 or given.threads < 1 or not set(names) <= set(rows):
            parser.error(f"expected at least one round and thread, and rows of {', '.join(rows)}")
        write_arrays(given, folder, ["lenet"] if given.kill else names)
        sides = Sides(given, folder, rows)
        try:
            if given.kill:
                kill(sides)
                return 0
            met = compare(sides, names, given.rounds)
        except Failed as error:
            print(f"paddle_side_by_side: error: {error}", file=sys.stderr)
            return 1
    print(f"other work on this machine: {other.share():.1%}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
