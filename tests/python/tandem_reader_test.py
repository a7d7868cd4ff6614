"""Readers that feed programs, and programs with a build strategy."""

import contextlib
import io
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy
import script
import tandem_case as case
from tandem_case import tandem

reader = tandem.reader


def program_with(make):
    """Builds a program in a guard. Returns (program, scope, result of make)."""
    with tandem.program_guard(tandem.Program("net")) as (program, startup):
        made = make()
    scope = tandem.Scope()
    tandem.Executor(threads=1).run(startup, scope=scope)
    return program, scope, made


def batches(count, batch=8):
    def generate():
        for i in range(count):
            feed = case.rows(batch, seed=i)
            yield feed["x"], feed["label"]
    return generate


def mlp_with(optimizer=None):
    loss = case.mlp()
    if optimizer is not None:
        optimizer.minimize(loss)
    return loss


def fed_by_hand(count):
    program, scope, loss = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
    exe, values = tandem.Executor(threads=1), []
    for x, label in batches(count)():
        values.append(exe.run(program, {"x": x, "label": label}, [loss], scope)[0][0])
    return values, tandem.params_sha256(program, scope)


class Loops(unittest.TestCase):
    """Every way to read gives the steps of a loop that feeds by hand."""

    def setUp(self):
        self.program, self.scope, self.loss = program_with(
            lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        self.variables = [self.program.var("x"), self.program.var("label")]
        self.exe = tandem.Executor(threads=1)

    def epoch(self, source):
        values = []
        source.start()
        try:
            while True:
                values.append(self.exe.run(self.program, None, [self.loss], self.scope)[0][0])
        except reader.EOFException:
            source.reset()
        return values

    def same(self, values, count):
        self.assertEqual((values, tandem.params_sha256(self.program, self.scope)),
                         fed_by_hand(count))

    def test_start_and_reset(self):
        loader = reader.DataLoader.from_generator(self.variables, 4, iterable=False)
        loader.set_batch_generator(batches(6))
        self.same(self.epoch(loader), 6)
        self.assertEqual(len(self.epoch(loader)), 6)  # the next epoch

    def test_a_for_loop(self):
        loader = reader.DataLoader.from_generator(self.variables).set_batch_generator(batches(6))
        self.same([self.exe.run(self.program, feed, [self.loss], self.scope)[0][0]
                   for feed in loader()], 6)

    def test_several_iterations_take_a_batch_each(self):
        loader = reader.DataLoader.from_generator(self.variables, 4, iterable=False)
        loader.set_batch_generator(batches(6))
        loader.start()
        for _ in range(2):  # four batches, then the two that are left
            value, = self.exe.run(self.program, None, [self.loss], self.scope, iterations=4)
        with self.assertRaises(reader.EOFException):
            self.exe.run(self.program, None, [self.loss], self.scope, iterations=4)
        loader.reset()
        self.assertEqual(self.scope.step, 6)
        values, sha256 = fed_by_hand(6)
        self.assertEqual((value[0], tandem.params_sha256(self.program, self.scope)),
                         (values[-1], sha256))

    def test_a_batch_of_another_size_begins_another_run(self):
        def uneven():
            yield from batches(3)()
            yield from batches(2, 5)()

        loader = reader.DataLoader.from_generator(self.variables, 4, iterable=False)
        loader.set_batch_generator(uneven)
        loader.start()
        steps = []
        for _ in range(2):
            self.exe.run(self.program, None, [self.loss], self.scope, iterations=10)
            steps.append(self.scope.step)
        loader.reset()
        self.assertEqual(steps, [3, 5])

    def test_a_worker_process(self):
        loader = reader.DataLoader.from_generator(
            self.variables, 4, iterable=False, use_multiprocess=True)
        loader.set_batch_generator(batches(6))
        self.same(self.epoch(loader), 6)

    def test_samples_and_lists_of_samples(self):
        def samples():
            for x, label in batches(3)():
                yield from zip(x, label)

        for drop_last, steps in ((True, 4), (False, 5)):
            loader = reader.Reader(self.variables).set_sample_generator(samples, 5, drop_last)
            found = list(loader)
            self.assertEqual([len(feed["x"]) for feed in found], [5] * 4 + [4] * (steps - 4))
            numpy.testing.assert_array_equal(
                numpy.concatenate([feed["x"] for feed in found])[:20],
                numpy.concatenate([x for x, _ in batches(3)()])[:20])

    def test_double_buffer_converts_in_the_thread(self):
        seen = []

        class Array:
            def __array__(self, dtype=None):
                seen.append(threading.current_thread().name)
                return numpy.ones((2, 4), "float32")

        for ahead in (True, False):
            loader = reader.Reader(self.variables, use_double_buffer=ahead)
            loader.set_batch_generator(lambda: [(Array(), numpy.zeros((2, 1), int))])
            list(loader)
        self.assertEqual(seen, ["tandem-reader", "MainThread"])

    def test_the_queue_has_a_bound(self):
        made = []

        def endless():
            while True:
                made.append(1)
                yield next(iter(batches(1)()))

        loader = reader.Reader(self.variables, capacity=3).set_batch_generator(endless)
        loader.start()
        until = time.time() + 20
        while loader.queue.size() < 3 and time.time() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        self.assertEqual((loader.queue.size(), loader.queue.capacity()), (3, 3))
        self.assertLessEqual(len(made), 4)
        loader.reset()
        self.assertEqual(threading.active_count(), 1)


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.program, self.scope, self.loss = program_with(lambda: mlp_with())
        self.variables = [self.program.var("x"), self.program.var("label")]

    def loader(self, source, **more):
        return reader.Reader(self.variables, **more).set_batch_generator(source)

    def test_a_run_before_start(self):
        loader = reader.DataLoader.from_generator(self.variables, iterable=False)
        loader.set_batch_generator(batches(1))
        with self.assertRaisesRegex(RuntimeError, "has not started"):
            tandem.Executor().run(self.program, scope=self.scope)
        loader.start()
        with self.assertRaisesRegex(RuntimeError, "has started already"):
            loader.start()
        loader.reset()
        with self.assertRaisesRegex(RuntimeError, "has no generator"):
            reader.Reader(self.variables).start()

    def test_an_exception_of_the_generator(self):
        def broken():
            yield from batches(2)()
            raise KeyError("no such file")

        for process, kind in ((False, KeyError), (True, tandem.errors.AbortedError)):
            found = []
            with self.assertRaisesRegex(kind, "no such file"):
                for feed in self.loader(broken, use_multiprocess=process):
                    found.append(feed)
            self.assertEqual(len(found), 2)

    def test_a_worker_that_dies(self):
        def dies():
            yield next(iter(batches(1)()))
            time.sleep(0.3)
            os._exit(9)

        with self.assertRaisesRegex(tandem.errors.AbortedError, "ended with code 9"):
            list(self.loader(dies, use_multiprocess=True))

    def test_the_end_and_a_failure_stay_until_reset(self):
        def broken():
            yield from batches(1)()
            raise KeyError("no such file")

        for source, kind in ((batches(1), reader.EOFException), (broken, KeyError)):
            loader = self.loader(source)
            loader.start()
            loader.next_batch()
            for _ in range(3):
                with self.assertRaises(kind):
                    loader.next_batch()
            loader.reset()

    def test_element_types(self):
        x, label = numpy.zeros((2, 4)), numpy.zeros((2, 1), "int32")
        feed, = self.loader(lambda: [(x, label)])  # less precision, or a wider integer
        self.assertEqual((feed["x"].dtype, feed["label"].dtype), ("float32", "int64"))
        with self.assertRaisesRegex(ValueError, 'float64 for "label", expected int64'):
            list(self.loader(lambda: [(x, numpy.array([[1.7], [2.9]]))]))
        with tandem.program_guard(tandem.Program()):
            half = tandem.data("half", [None, 2], "bf16")
        for given in (numpy.ones((1, 2), "float32"), [[1, 2]]):
            with self.assertRaisesRegex(ValueError, "expected uint16"):
                list(reader.Reader([half]).set_batch_generator(lambda g=given: [(g,)]))

    def test_a_worker_ends_after_a_killed_script(self):
        program = """
import os, tandem, numpy
x = tandem.data("x", [None, 100000])
def endless():
    print(os.getpid(), flush=True)
    while True:
        yield (numpy.zeros((10, 100000), "float32"),)
loader = tandem.reader.Reader([x], use_multiprocess=True).set_batch_generator(endless)
loader.start()
loader.next_batch()
input()
"""
        with subprocess.Popen([sys.executable, "-B", "-c", program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": case.PACKAGES}) as parent:
            worker = int(parent.stdout.readline())
            time.sleep(0.5)
            parent.kill()
            parent.wait()
            until = time.time() + 20
            while os.path.exists(f"/proc/{worker}") and time.time() < until:
                time.sleep(0.05)
            self.assertFalse(os.path.exists(f"/proc/{worker}"))

    def test_wrong_batches(self):
        with self.assertRaisesRegex(ValueError, "yields 1 values, but the reader has 2 variables"):
            list(self.loader(lambda: [(1,)]))
        with self.assertRaisesRegex(ValueError, 'no array "label"'):
            list(self.loader(lambda: [{"x": numpy.zeros((2, 4))}]))
        with self.assertRaises(ValueError):
            reader.Reader([])
        with self.assertRaisesRegex(ValueError, "dygraph"):
            reader.DataLoader.from_generator(self.variables, return_list=True)
        with self.assertRaisesRegex(ValueError, "2 shapes and 1 dtypes"):
            reader.py_reader(2, [[-1, 4], [-1, 1]], ["float32"])


class Jobs(unittest.TestCase):
    def test_the_samples_of_a_job(self):
        script.need_file(os.path.join(case.FASHION, "train-images-idx3-ubyte.gz"),
                         "dataset-fashion-mnist")
        data = reader.Dataset(f'format: "mnist" dir: "{case.FASHION}"')
        self.assertEqual(len(data), 60000)
        self.assertEqual([field[0] for field in data.fields()], ["img", "label"])
        pixels, labels = case.images()
        ids = tandem.Sampler(60000, 128).batch(0, 0)
        feed = next(data.batches(128))
        numpy.testing.assert_array_equal(feed["img"], pixels[ids])
        numpy.testing.assert_array_equal(feed["label"], labels[ids])
        shares = [next(data.batches(128, rank=rank, ranks=3)) for rank in range(3)]
        numpy.testing.assert_array_equal(
            numpy.concatenate([share["img"] for share in shares]), feed["img"])
        with self.assertRaises(FileNotFoundError):
            reader.Dataset('format: "mnist" dir: "/no/such"')
        with self.assertRaisesRegex(ValueError, "formatt"):
            reader.Dataset('formatt: "mnist"')
        for rank, ranks, batch_size in ((2, 2, 128), (-1, 2, 128), (0, 3, 2)):
            with self.assertRaisesRegex(ValueError, "0 <= rank < ranks <= batch_size"):
                next(data.batches(batch_size, rank=rank, ranks=ranks))


class Compiled(unittest.TestCase):
    def train(self, compile_, optimizer, steps=4, rows=8):
        program, scope, loss = program_with(lambda: mlp_with(optimizer))
        exe, runs, value = tandem.Executor(threads=1), compile_(program), None
        for step in range(steps):
            value, = exe.run(runs, case.rows(rows, seed=step), [loss], scope)
        return tandem.params_sha256(program, scope), float(value[0])

    def test_passes_keep_the_bits(self):
        def with_passes(program):
            build = tandem.BuildStrategy()
            build.fuse_all_optimizer_ops = True
            build.fuse_elewise_add_act_ops = True
            build.enable_inplace = True
            execution = tandem.ExecutionStrategy()
            execution.num_threads = 2
            return tandem.CompiledProgram(program).with_data_parallel(
                build_strategy=build, exec_strategy=execution)

        for optimizer in (lambda: tandem.optimizer.SGD(0.1),
                          lambda: tandem.optimizer.Adam(0.01)):
            self.assertEqual(self.train(with_passes, optimizer()),
                             self.train(lambda program: program, optimizer()))

    def test_passes_change_the_program(self):
        program, scope, _ = program_with(lambda: mlp_with(tandem.optimizer.Adam(0.01)))
        build = tandem.BuildStrategy()
        build.fuse_all_optimizer_ops = True
        compiled = tandem.CompiledProgram(program, build).program_for(scope)
        updates = [op for op in compiled.list_ops() if op["type"] == "adam"]
        self.assertLess(len(updates), 4)
        self.assertEqual(len([op for op in program.list_ops() if op["type"] == "adam"]), 4)

    def test_iterations_of_a_run(self):
        def twice(program):
            execution = tandem.ExecutionStrategy()
            execution.num_iteration_per_run = 2
            return tandem.CompiledProgram(program).with_data_parallel(exec_strategy=execution)

        program, scope, loss = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        tandem.Executor(threads=1).run(twice(program), case.rows(), [loss], scope)
        self.assertEqual(scope.step, 2)

    def test_batches_of_several_sizes(self):
        program, scope, loss = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        compiled, exe = tandem.CompiledProgram(program), tandem.Executor(threads=1)
        for rows in (8, 3, 8):
            exe.run(compiled, case.rows(rows), [loss], scope)
        self.assertEqual(scope.step, 3)

    def test_several_scopes_threads_and_copies(self):
        program, scope, loss = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        compiled, other = tandem.CompiledProgram(program), tandem.Scope()
        tandem.Executor().run(tandem.StartupProgram(program), scope=other)
        for chosen, threads in ((scope, 1), (other, 2), (scope, 2), (other, 1)):
            tandem.Executor(threads=threads).run(compiled, case.rows(), [loss], chosen)
        self.assertEqual(len(compiled.program_for(scope)._training._plans), 2)
        self.assertEqual((scope.step, other.step), (2, 2))
        copy = tandem.CompiledProgram(program.clone())
        tandem.Executor(threads=1).run(copy, case.rows(), [loss.name], scope)
        self.assertEqual(scope.step, 3)

    def test_layers_after_minimize(self):
        program, scope, loss = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        with tandem.program_guard(program):
            tandem.layers.relu(loss)
        with self.assertRaisesRegex(RuntimeError, "changed after minimize"):
            tandem.Executor().run(tandem.CompiledProgram(program), case.rows(), [loss], scope)

    def test_the_older_executor(self):
        with tandem.program_guard(tandem.Program("net")) as (program, startup):
            loss = case.mlp()
            test = program.clone(for_test=True)
            tandem.optimizer.SGD(0.1).minimize(loss)
        scope = tandem.Scope()
        tandem.Executor().run(startup, scope=scope)
        train_exe = tandem.ParallelExecutor(use_cuda=False, loss_name=loss.name,
                                            main_program=program, scope=scope)
        test_exe = tandem.ParallelExecutor(use_cuda=False, main_program=test,
                                           share_vars_from=train_exe)
        feed = case.rows()
        before, = test_exe.run([loss.name], feed)
        first, = train_exe.run([loss.name], feed_dict=feed)
        after, = test_exe.run([loss.name], feed)
        self.assertEqual(before[0], first[0])
        self.assertLess(after[0], before[0])

    def test_notes_about_settings_are_shown(self):
        program, scope, _ = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        os.environ["FLAGS_no_such_flag"] = "1"
        try:
            with contextlib.redirect_stderr(io.StringIO()) as shown:
                tandem.CompiledProgram(program).program_for(scope)
        finally:
            del os.environ["FLAGS_no_such_flag"]
        self.assertRegex(shown.getvalue(), "FLAGS_no_such_flag.*has no effect")

    def test_mistakes(self):
        program, scope, _ = program_with(lambda: mlp_with(tandem.optimizer.SGD(0.1)))
        with self.assertRaisesRegex(ValueError, "expected a tandem.Program"):
            tandem.CompiledProgram(3)
        with self.assertRaisesRegex(ValueError, "num_trainers is 2"):
            tandem.ParallelExecutor(main_program=program, num_trainers=2)
        with self.assertRaisesRegex(tandem.Error, "2 places is not implemented"):
            tandem.CompiledProgram(program).with_data_parallel(places=["cpu", "cpu"])
        build = tandem.BuildStrategy()
        with self.assertRaisesRegex(ValueError, "fuse_all_optimiser_ops"):
            build.fuse_all_optimiser_ops = True
        os.environ["CPU_NUM"] = "2"
        try:
            with self.assertRaisesRegex(tandem.Error, "cpu_num above 1"):
                tandem.CompiledProgram(program).program_for(scope)
        finally:
            del os.environ["CPU_NUM"]


if __name__ == "__main__":
    script.main()
