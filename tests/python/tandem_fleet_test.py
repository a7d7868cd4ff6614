"""Several ranks that run one script: the parameters of the same job, and clear errors."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import script
import tandem_case as case
from tandem_case import tandem
from tandem import fleet

EXAMPLE = os.path.join(script.SOURCE, "deploy/examples/fleet_lenet.py")
STEPS = 20
JOB = """
name: "lenet"
model { zoo: "lenet" arg { name: "channels" value: "8,16" } }
data { format: "mnist" dir: "%s" }
optimizer { type: "adam" learning_rate: 0.002 }
global_batch_size: 128 epochs: 1 steps_max: %d threads: 1 eval_every_epochs: 0
"""


def launch(folder, *arguments, timeout=120):
    """Runs tandemrun in `folder`. Returns the process with its output."""
    interpreters = os.path.dirname(sys.executable)
    return subprocess.run([os.path.join(script.BIN, "tandemrun"), *arguments], cwd=folder,
                          capture_output=True, text=True, check=False, timeout=timeout,
                          env={**os.environ, "PATH": f"{interpreters}:/usr/bin:/bin"})


def result_of(folder, done):
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
        return json.load(file)


def of_script(processes, fields=(), steps=STEPS):
    with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
        settings = [f"--set={field}" for field in fields]
        return result_of(folder, launch(folder, *processes, EXAMPLE, f"--steps={steps}",
                                        "--threads=1", "--result=result.json", *settings))


def of_job(processes, fields=(), steps=STEPS):
    with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
        with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB % (case.FASHION, steps))
        settings = [f"--{field}" for field in fields]
        return result_of(folder, launch(folder, *processes, "job.pbtxt", *settings, "--",
                                        "--result_json=result.json"))


COLLECTIVE = ["--nproc=2"]
PSERVER = ["--servers=2", "--workers=2"]


class SameBits(unittest.TestCase):
    """The reference is the job in the same mode."""

    def setUp(self):
        script.need_file(os.path.join(case.FASHION, "train-images-idx3-ubyte.gz"),
                         "dataset-fashion-mnist")

    def same(self, processes, fields=(), steps=STEPS):
        job = of_job(processes, fields, steps)
        self.assertEqual(of_script(processes, fields, steps)["params_sha256"],
                         job["params_sha256"])
        return job

    def test_one_process(self):
        self.same(["--mode=local"])

    def test_two_ranks(self):
        self.same(COLLECTIVE)

    def test_parameter_servers(self):
        self.same(PSERVER)

    def test_ranks_with_passes_of_the_strategy(self):
        self.same(COLLECTIVE, ["gradient_merge=true", "gradient_merge_configs.k_steps=2",
                               "build_strategy.fuse_all_optimizer_ops=true",
                               "build_strategy.reduce_strategy=Reduce"])

    def test_ranks_that_average_parameters(self):
        self.same(COLLECTIVE, ["localsgd=true", "localsgd_configs.k_steps=4"])

    def test_mixed_precision(self):
        self.same(COLLECTIVE, ["amp=true"], steps=8)


class Guide(unittest.TestCase):
    def test_the_script_of_the_page_runs_in_each_mode(self):
        with open(os.path.join(script.SOURCE, "docs/guides/python-ranks.md"),
                  encoding="utf-8") as file:
            programs = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        for processes in (["--mode=local"], COLLECTIVE, PSERVER):
            with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
                with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                    file.write("\n".join(programs))
                done = launch(folder, *processes, "train.py")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                lines = [line for line in done.stdout.splitlines() if line.startswith("loss")]
                self.assertEqual(len(lines), 1, done.stdout)
                self.assertLess(float(lines[0].split()[1]), 0.8)
                self.assertIn("strategy.prototxt", os.listdir(folder))


SCRIPT = """
import numpy, os, sys, tandem
from tandem import fleet
fleet.init({init})
x, label = tandem.data("x", [None, 4]), tandem.data("label", [None, 1], "int64")
loss = tandem.layers.softmax_loss(tandem.layers.fc(x, 3), label)
strategy = fleet.DistributedStrategy()
{strategy}
fleet.distributed_optimizer(tandem.optimizer.SGD(0.1), strategy).minimize(loss)
exe = tandem.Executor(threads=1)
exe.run(tandem.default_startup_program())
def step(batch=4, fetch=[loss]):
    return exe.run(feed={{"x": numpy.ones((batch, 4), "float32"),
                         "label": numpy.zeros((batch, 1), "int64")}}, fetch_list=fetch)
{body}
"""


def run_script(processes, body, strategy="", init=""):
    with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(SCRIPT.format(body=body, strategy=strategy, init=init))
        done = launch(folder, *processes, "train.py")
        return done.returncode, done.stdout + done.stderr


TABLES = """
import numpy, sys, tandem
from tandem import fleet
fleet.init()
ids, label = tandem.data("ids", [None, 3], "int64"), tandem.data("label", [None, 1], "int64")
emb = tandem.layers.embedding(ids, [40, 8], is_sparse=True, is_distributed=len(sys.argv) > 1)
hidden = tandem.layers.fc(emb, 16, act="relu")
loss = tandem.layers.softmax_loss(tandem.layers.fc(hidden, 2), label)
fleet.distributed_optimizer(tandem.optimizer.Adagrad(0.1)).minimize(loss)
exe = tandem.Executor(threads=1)
exe.run(tandem.default_startup_program())
fleet.init_worker()
random = numpy.random.default_rng(fleet.worker_index())
for step in range(40):
    numbers = random.integers(0, 40, (32, 3))
    value, = exe.run(feed={"ids": numbers, "label": numbers[:, :1] % 2}, fetch_list=[loss])
fleet.stop_worker()
print("loss", float(value[0]).hex())
"""


class Tables(unittest.TestCase):
    def test_each_mode_gives_the_same_bits(self):
        losses = {}
        for processes in (COLLECTIVE, PSERVER, ["--mode=hybrid", "--servers=1", "--workers=2"]):
            for distributed in ([], ["distributed"]):
                with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
                    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                        file.write(TABLES)
                    done = launch(folder, *processes, "train.py", *distributed)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    found = re.findall(r"loss (\S+)", done.stdout)
                    losses[" ".join(processes + distributed)] = found[0]
        self.assertEqual(len(losses), 6)
        self.assertEqual(len(set(losses.values())), 1, losses)


class Mistakes(unittest.TestCase):
    def fails(self, processes, expected, body="step()", **more):
        code, text = run_script(processes, body, **more)
        self.assertNotEqual(code, 0, text)
        self.assertRegex(text, expected)

    def test_a_script_that_forgets_init_worker(self):
        self.fails(PSERVER, r"before fleet.init_worker\(\) \[TD1219\]")

    def test_another_batch_size(self):
        self.fails(COLLECTIVE, r'feed "x": the array has the shape \[3, 4\], but \[4, 4\]',
                   "step(); step(3)")

    def test_a_variable_that_was_not_fetched_at_first(self):
        self.fails(COLLECTIVE, 'fetch_list: "fc_0.w" was not fetched in the first step',
                   'step(); step(fetch=["fc_0.w"])')

    def test_a_step_after_the_end(self):
        self.fails(COLLECTIVE, "the training has ended", "step(); fleet.stop_worker(); step()")

    def test_a_program_that_changes_after_its_first_step(self):
        self.fails(COLLECTIVE, "changed after the first step of its training",
                   "step(); tandem.layers.relu(x); step()")

    def test_the_mode_of_the_launcher(self):
        self.fails(PSERVER, "is_collective=True, but the launcher started pserver mode",
                   init="is_collective=True")

    def test_a_setting_that_needs_a_job(self):
        self.fails(COLLECTIVE, "sharding with a training loop in Python is not implemented",
                   strategy="strategy.sharding = True")

    def test_a_knob_of_another_mode(self):
        self.fails(COLLECTIVE, "setting a_sync", strategy="strategy.a_sync = True")

    def test_different_settings_of_the_ranks(self):
        self.fails(COLLECTIVE, "the settings of the ranks differ",
                   strategy="strategy.fuse_all_reduce_ops = fleet.worker_index() == 0")

    def test_an_exception_of_one_rank_ends_the_other(self):
        body = ("step()\nif fleet.worker_index() == 1: raise ValueError('bad sample')\n"
                "step()\nstep()")
        self.fails(COLLECTIVE, "bad sample|trainer.1|rank 1", body)

    def test_a_rank_that_vanishes_fails_the_end_of_the_others(self):
        # Rank 1 ends with exit code 0, but without the end of its training.
        self.fails(COLLECTIVE, "rank 1", "step()\nif fleet.worker_index() == 1: os._exit(0)")

    def test_arguments_that_are_not_implemented(self):
        self.fails(COLLECTIVE, "the argument no_grad_set is not implemented",
                   "", strategy="fleet.distributed_optimizer(tandem.optimizer.SGD(0.1))"
                                ".minimize(loss, no_grad_set={'fc_0.w'})")
        with self.assertRaisesRegex(tandem.Error, "dirname is not implemented"):
            one = tandem.fleet.Fleet()
            one.init()
            one.init_server("model")

    def test_a_copy_of_a_distributed_program(self):
        self.fails(COLLECTIVE, "clone the program before minimize",
                   "tandem.default_main_program().clone()")

    def test_another_number_of_threads(self):
        self.fails(COLLECTIVE, "another number of threads",
                   "step(); exe = tandem.Executor(threads=2); step()")

    def test_flags_that_need_a_job_file(self):
        for flag in ("--max_restarts=1", "--status_port=7000"):
            self.fails([*COLLECTIVE, flag], "with a script is not implemented")
        self.fails([*COLLECTIVE, "--amp=true"], "is a field of a job, but train.py is a script")


END = """
import sys
from tandem import training
class Fake:
    def abort(self, why): print("aborted:", why)
    def finish(self):
        print("finished")
        if "unfinished" in sys.argv: raise RuntimeError("rank 1 is lost")
first = Fake()
training._register(first)
{end}
"""


class EndOfAProgram(unittest.TestCase):
    def end(self, end, *arguments):
        done = subprocess.run([sys.executable, "-B", "-c", END.format(end=end), *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": case.PACKAGES})
        return done.returncode, done.stdout, done.stderr

    def test_how_a_program_ends(self):
        self.assertEqual(self.end(""), (0, "finished\n", ""))
        self.assertEqual(self.end("sys.exit(0)"), (0, "finished\n", ""))
        code, out, _ = self.end("sys.exit(3)")
        self.assertEqual((code, out), (3, "aborted: sys.exit ended the program with an error\n"))
        code, out, err = self.end("raise KeyError('x')")
        self.assertEqual((code, out), (1, "aborted: KeyError ended the program\n"))
        self.assertIn("KeyError: 'x'", err)

    def test_a_training_that_cannot_finish_fails_the_program(self):
        code, out, err = self.end("second = Fake(); training._register(second)", "unfinished")
        self.assertEqual(code, 1)
        self.assertEqual(out, "finished\naborted: another training of the program failed\n")
        self.assertIn("RuntimeError: rank 1 is lost", err)


class Strategy(unittest.TestCase):
    def test_fields_are_checked_when_they_are_set(self):
        strategy = fleet.DistributedStrategy()
        with self.assertRaisesRegex(ValueError, 'no setting "ampp".*did you mean "amp"'):
            strategy.ampp = True
        with self.assertRaisesRegex(ValueError, "nccl_comm_num"):
            strategy.nccl_comm_num = 99
        with self.assertRaisesRegex(ValueError, "expected a bool, a number"):
            strategy.amp = object()
        with self.assertRaises(AttributeError):
            strategy.ampp  # pylint: disable=pointless-statement

    def test_groups_and_files(self):
        strategy = fleet.DistributedStrategy()
        strategy.amp = True
        strategy.amp_configs = {"init_loss_scaling": 128, "custom_white_list": ["conv2d"]}
        build = fleet.BuildStrategy()
        build.reduce_strategy = fleet.BuildStrategy.ReduceStrategy.Reduce
        build.fuse_all_optimizer_ops = True
        strategy.build_strategy = build
        execution = fleet.ExecutionStrategy()
        execution.num_threads = 3
        strategy.execution_strategy = execution
        self.assertEqual(strategy.amp_configs["init_loss_scaling"], 128)
        self.assertEqual(strategy.build_strategy["reduce_strategy"], "Reduce")
        self.assertIs(strategy.a_sync, False)
        with self.assertRaisesRegex(ValueError, "is for execution_strategy"):
            strategy.build_strategy = execution
        with tempfile.TemporaryDirectory(prefix="tandem-fleet-") as folder:
            path = os.path.join(folder, "strategy.prototxt")
            strategy.save_to_prototxt(path)
            read = fleet.DistributedStrategy()
            read.load_from_prototxt(path)
            self.assertEqual(repr(read), repr(strategy))
            again = fleet.DistributedStrategy()
            for name, text in read.settings().items():
                setattr(again, name, text)
            self.assertEqual(repr(again), repr(strategy))


class OneProcess(unittest.TestCase):
    def test_calls_before_init(self):
        with self.assertRaisesRegex(RuntimeError, "call fleet.init"):
            tandem.fleet.Fleet().worker_index()

    def test_a_role_from_arguments(self):
        ranks = tandem.fleet.Fleet()
        ranks.init(fleet.UserDefinedRoleMaker(
            current_id=1, role=fleet.Role.WORKER, worker_num=2,
            server_endpoints=["127.0.0.1:7001", "127.0.0.1:7002"]))
        self.assertEqual((ranks.worker_index(), ranks.worker_num(), ranks.server_num()), (1, 2, 2))
        self.assertFalse(ranks.is_first_worker())
        self.assertTrue(ranks.is_worker())
        server = tandem.fleet.Fleet()
        server.init(fleet.UserDefinedRoleMaker(
            current_id=0, role=fleet.Role.SERVER, worker_num=2,
            server_endpoints=["127.0.0.1:7001"]))
        self.assertTrue(server.is_server())
        with self.assertRaisesRegex(RuntimeError, "this process is a worker"):
            ranks.run_server()
        del server._environment["PADDLE_PORT"]
        with self.assertRaisesRegex(RuntimeError, "PADDLE_PORT is not set"):
            server.run_server()


if __name__ == "__main__":
    script.main()
