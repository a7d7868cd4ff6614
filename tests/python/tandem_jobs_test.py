"""Jobs and functions that Python starts in processes of their own."""

import contextlib
import io
import os
import tempfile
import time
import unittest

import script
import tandem_case as case
from tandem_case import tandem

JOB = """
name: "small"
model { zoo: "mlp" arg { name: "hidden" value: "16" } }
data { format: "table" dir: "." table { file: "rows.csv" split: "0.8/0.1/0.1" column { name: "label" kind: LABEL } } }
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 20 epochs: 20 eval_every_epochs: 0 log_every_steps: 10 threads: 1
"""


def train(rate, steps=5):
    """Trains on this rank; returns its rank, the last loss and the parameters' hash."""
    import numpy
    import tandem
    from tandem import fleet

    fleet.init()
    x, label = tandem.data("x", [None, 4]), tandem.data("label", [None, 1], "int64")
    loss = tandem.layers.softmax_loss(tandem.layers.fc(x, 3), label)
    fleet.distributed_optimizer(tandem.optimizer.SGD(rate)).minimize(loss)
    exe = tandem.Executor(threads=1)
    exe.run(tandem.default_startup_program())
    fleet.init_worker()
    random = numpy.random.default_rng(fleet.worker_index())
    for _ in range(steps):
        xs = random.standard_normal((8, 4)).astype("float32")
        value, = exe.run(feed={"x": xs, "label": (xs[:, :1] > 0).astype("int64")},
                         fetch_list=[loss])
    fleet.stop_worker()
    return fleet.worker_index(), float(value[0]), tandem.params_sha256()


def broken():
    """Fails on each rank."""
    raise ValueError("no such table")


class Directory(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-jobs-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)


class Fit(Directory):
    def setUp(self):
        super().setUp()
        feed = case.rows(batch=300)
        with open("rows.csv", "w", encoding="utf-8") as file:
            file.write("a,b,c,d,label\n")
            for row in feed["x"]:
                file.write(",".join(f"{v:.5f}" for v in row) + f",{'yn'[int(row[0] > 0)]}\n")

    def test_a_job_in_each_mode(self):
        rows = []
        with open("small.pbtxt", "w", encoding="utf-8") as file:
            file.write(JOB)
        local = tandem.fit("small.pbtxt", callback=rows.append)
        self.assertGreater(local.metrics["accuracy"], 0.8)
        self.assertEqual((local.steps, local.history[-1]["step"]), (260, 260))
        self.assertEqual([row for row in rows if "step" in row], local.history)
        self.assertEqual(len([row for row in rows if row.get("result") == "eval"]), 1)
        for processes in ({"nproc": 2}, {"servers": 1, "workers": 2}):
            other = tandem.fit(JOB, **processes)
            self.assertAlmostEqual(other.metrics["loss"], local.metrics["loss"], places=3)
        self.assertEqual(sorted(os.listdir(".")), ["rows.csv", "small.pbtxt"])

    def test_fields_and_settings(self):
        result = tandem.fit(JOB, epochs=1, settings={"optimizer.learning_rate": 0.1})
        self.assertEqual(result.steps, 13)
        self.assertNotEqual(result.params_sha256, tandem.fit(JOB, epochs=1).params_sha256)

    def test_the_progress_bar(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            tandem.fit(JOB, progress=True)
            tandem.fit(JOB, progress=False)
        lines = shown.getvalue().split("\r")
        self.assertEqual(len(lines), 27)
        self.assertRegex(lines[-1], r"^\[=+\] 260/260  loss 0\.\d+  accuracy \S+  \d+ samples/s\n$")

    def test_mistakes(self):
        with self.assertRaisesRegex(tandem.jobs.JobError, 'unknown optimizer "adan"') as found:
            tandem.fit(JOB, settings={"optimizer.type": "adan"})
        self.assertIn("adam", found.exception.hint)
        with self.assertRaisesRegex(tandem.jobs.JobError, "TD1008"):
            tandem.fit("absent.pbtxt")
        with self.assertRaisesRegex(ValueError, "nproc is for collective mode"):
            tandem.fit(JOB, nproc=2, servers=1)
        self.assertEqual(os.listdir("."), ["rows.csv"])

    def test_an_exception_of_the_callback_ends_the_job(self):
        def stop(row):
            time.sleep(1)  # the pipe of the launcher fills meanwhile
            raise KeyError(row["step"])

        with self.assertRaises(KeyError):
            tandem.fit(JOB, callback=stop, epochs=100000, log_every_steps=1)


class Launch(Directory):
    def test_ranks_return_their_results(self):
        for processes in ({"nproc": 2}, {"servers": 1, "workers": 2}):
            with contextlib.redirect_stdout(io.StringIO()):
                first, second = tandem.launch(train, (0.5,), **processes)
            self.assertEqual((first[0], second[0]), (0, 1))
            self.assertEqual(first[2], second[2])
            self.assertNotEqual(first[1], second[1])

    def test_mistakes(self):
        with contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(tandem.jobs.JobError, "ValueError: no such table"):
                tandem.launch(broken, nproc=2)
        with self.assertRaisesRegex(ValueError, "def"):
            tandem.launch(lambda: 3, nproc=2)
        with self.assertRaisesRegex(ValueError, "has no source"):
            tandem.launch(len, nproc=2)


if __name__ == "__main__":
    script.main()
