"""Runs from Python: arrays in and out, threads, callbacks, Ctrl-C, and wrong input."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import numpy
import script
import tandem_case as case
from tandem_case import tandem

errors = tandem.errors


class Runs(unittest.TestCase):
    def setUp(self):
        self.program = tandem.Program("net")
        with tandem.program_guard(self.program) as (_, self.startup):
            self.loss = case.mlp()
            tandem.optimizer.SGD(0.1).minimize(self.loss)
        self.scope, self.exe = tandem.Scope(), tandem.Executor(threads=1)

    def start(self):
        self.exe.run(self.startup, scope=self.scope)

    def run_once(self, feed=None, fetch=None, **kwargs):
        feed = case.rows() if feed is None else feed
        fetch = [self.loss] if fetch is None else fetch
        return self.exe.run(self.program, feed, fetch, self.scope, **kwargs)

    def assert_lives(self):
        """The objects still work after a failure."""
        self.assertEqual(len(self.run_once()), 1)


class WrongInput(Runs):
    def setUp(self):
        super().setUp()
        self.start()

    def fails(self, kind, pattern, feed=None, fetch=None, **changes):
        given = case.rows() if feed is None else feed
        given.update(changes)
        with self.assertRaisesRegex(kind, pattern) as caught:
            self.run_once(given, fetch)
        self.assertTrue(caught.exception.code.startswith("TD"), caught.exception)
        self.assert_lives()
        return caught.exception

    def test_shapes(self):
        zeros = numpy.zeros
        self.fails(ValueError, r'"x": the array has the shape \[8,5\], expected \[batch,4\]',
                   x=zeros((8, 5), "f4"))
        self.fails(ValueError, r"shape \[8\], expected \[batch,4\]", x=zeros(8, "f4"))
        self.fails(ValueError, r"shape \[0,4\]", x=zeros((0, 4), "f4"))
        self.fails(ValueError, '"x" has a batch of 7 samples, but "label" has 8', x=zeros((7, 4), "f4"))

    def test_types(self):
        wrong = self.fails(ValueError, '"x": the array has the type float64, expected float32',
                           x=numpy.zeros((8, 4)))
        self.assertEqual(wrong.hint, 'array.astype("float32")')
        self.fails(ValueError, "the array has the type >f4", x=numpy.zeros((8, 4), ">f4"))
        self.fails(ValueError, "the array has the type object",
                   x=numpy.array([[None] * 4] * 8, dtype=object))

    def test_names(self):
        wrong = self.fails(LookupError, 'has no data variable "labels"', labels=numpy.zeros((8, 1)))
        self.assertIn('did you mean "label"', wrong.hint)
        self.fails(LookupError, 'has no data variable "fc_0.w"', **{"fc_0.w": numpy.zeros((4, 16))})
        self.fails(ValueError, 'data variable "label" of program "net" is not fed',
                   {"x": case.rows()["x"]})

    def test_fetches(self):
        wrong = self.fails(LookupError, 'fetch_list: program "net" has no variable "mean_1.out"',
                           fetch=["mean_1.out"])
        self.assertIn('did you mean "mean_0.out"', wrong.hint)
        with self.assertRaisesRegex(ValueError, "expected variables or names, got int"):
            self.run_once(fetch=[3])
        with self.assertRaisesRegex(ValueError, "expected a tandem.Program, got str"):
            self.exe.run("net")

    def test_a_label_out_of_range_is_an_error_of_its_operator(self):
        wrong = self.fails((ValueError, IndexError), "softmax_with_cross_entropy",
                           label=numpy.full((8, 1), 3))
        self.assertRegex(str(wrong), r"tandem_case\.py:\d+")

    def test_numbers_of_threads_and_iterations(self):
        with self.assertRaisesRegex(ValueError, "expected at least 1"):
            tandem.Executor(threads=0)
        with self.assertRaisesRegex(ValueError, "iterations is 0"):
            self.run_once(iterations=0)

    def test_places(self):
        with self.assertRaises(ValueError):
            tandem.Scope("tpu")
        with self.assertRaises((ValueError, ConnectionError)):
            tandem.Scope("cuda:99")

    def test_scopes(self):
        with self.assertRaisesRegex(LookupError, 'no variable "fc_0.ww".*did you mean "fc_0.w"'):
            self.scope.find("fc_0.ww")
        with self.assertRaises(errors.FailedPreconditionError):
            self.scope.set("fc_0.w", numpy.zeros((3, 3), "f4"))
        with self.assertRaises(ValueError):
            self.scope.set("new", numpy.zeros(3, "c8"))
        self.assert_lives()


class NotStarted(Runs):
    def test_a_run_before_the_startup_program(self):
        with self.assertRaises(errors.FailedPreconditionError) as caught:
            self.run_once()
        self.assertIn('variable "fc_0.w" has no value in the scope [TD1219]', str(caught.exception))
        self.assertIn("startup program", caught.exception.hint)
        self.start()
        self.assert_lives()


class Arrays(Runs):
    def setUp(self):
        super().setUp()
        self.start()

    def test_lists_and_strided_arrays_are_converted(self):
        feed = case.rows()
        x = numpy.zeros((8, 8), "f4")
        x[:, ::2] = feed["x"]
        test = tandem.Program("same")
        with tandem.program_guard(test):
            out = tandem.ops.relu(tandem.data("x", [None, 4]))
        got, = self.exe.run(test, {"x": x[:, ::2]}, [out], self.scope)
        numpy.testing.assert_array_equal(got, numpy.maximum(feed["x"], 0))
        got, = self.exe.run(test, {"x": [[1, -2, 3, -4]]}, [out], self.scope)
        numpy.testing.assert_array_equal(got, [[1, 0, 3, 0]])

    def test_results_are_copies_and_tensors_are_not(self):
        first, = self.run_once()
        kept = first.copy()
        tensor, = self.run_once(return_numpy=False)
        shared = tensor.share()
        before = shared.copy()
        self.run_once()
        self.assertEqual(first, kept)
        self.assertNotEqual(shared[0], before[0])
        self.assertFalse(shared.flags.writeable)
        self.assertEqual((tensor.shape, tensor.dtype, tensor.place), ((1,), "f32", "cpu"))
        numpy.testing.assert_array_equal(numpy.asarray(tensor), shared)

    def test_dlpack_shares_the_memory(self):
        tensor = self.scope.find("fc_0.w")
        array = numpy.from_dlpack(tensor)
        self.assertEqual(array.ctypes.data, tensor.share().ctypes.data)
        numpy.testing.assert_array_equal(array, self.scope.get("fc_0.w"))
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        unused = tensor.__dlpack__()
        del unused, tensor
        self.scope = None
        self.exe = None
        gc.collect()
        self.assertTrue(numpy.isfinite(array).all())

    def test_tensors_of_other_libraries_are_fed(self):
        program = tandem.Program("fed")
        with tandem.program_guard(program):
            out = tandem.ops.scale(tandem.data("y", [4, 16]), scale=2.0)
        weight = self.scope.find("fc_0.w")
        got, = self.exe.run(program, {"y": weight}, [out], self.scope)
        numpy.testing.assert_array_equal(got, 2 * self.scope.get("fc_0.w"))
        with self.assertRaisesRegex(ValueError, '"label": the array has the type float32'):
            losses, = self.run_once(case.rows(4), ["softmax_loss_0.rows"], return_numpy=False)
            self.run_once({**case.rows(4), "label": losses})

    def test_torch(self):
        try:
            import torch  # pylint: disable=import-outside-toplevel
        except ImportError as missing:
            self.skipTest(f"{missing} (Debian's package python3-torch)")
        feed = case.rows()
        numbers, = self.run_once(feed)
        self.exe.run(self.startup, scope=self.scope)
        tensors, = self.run_once({name: torch.from_numpy(value) for name, value in feed.items()},
                                 return_numpy=False)
        self.assertEqual(float(torch.from_dlpack(tensors)), float(numbers[0]))

    def test_no_bytes_are_copied_for_a_shared_tensor(self):
        program = tandem.Program("large")
        with tandem.program_guard(program):
            out = tandem.ops.relu(tandem.data("x", [1024, 4096]))
        feed = {"x": numpy.ones((1024, 4096), "f4")}
        tensor, = self.exe.run(program, feed, [out], self.scope, return_numpy=False)

        def resident():
            with open("/proc/self/statm", encoding="utf-8") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

        before = resident()
        views = [tensor.share() for _ in range(20)]
        self.assertLess(resident() - before, 8 << 20)  # twenty copies would have 320 MiB
        self.assertEqual(views[3][5, 6], 1)

    def test_all_kinds_of_variables_can_be_fetched(self):
        grad = self.program.all_parameters()[0].grad_name
        x, weight, gradient, rate = self.run_once(fetch=["x", "fc_0.w", grad, "learning_rate"])
        numpy.testing.assert_array_equal(x, case.rows()["x"])
        self.assertEqual(weight.shape, gradient.shape)
        self.assertEqual(rate, numpy.float32(0.1))

    def test_plans_are_kept_by_shape_fetch_and_version(self):
        def plans():
            return self.scope._plans[self.program][1]

        self.run_once()
        self.run_once()
        self.assertEqual(len(plans()), 1)
        self.run_once(case.rows(batch=3))
        self.run_once(fetch=["fc_0.w"])
        self.assertEqual(len(plans()), 3)
        for batch in range(10, 40):
            self.run_once(case.rows(batch=batch))
        self.assertEqual(len(plans()), 16)
        with tandem.program_guard(self.program):
            tandem.ops.scale(self.loss)
        self.run_once()
        self.assertEqual(len(plans()), 1)

    def test_another_feed_fetch_or_program_is_not_run_by_the_recent_plan(self):
        rows, fewer = case.rows(), {name: array[:3] for name, array in case.rows().items()}
        lists = {name: array.tolist() for name, array in rows.items()}
        other = tandem.Program("other")
        with tandem.program_guard(other):
            x = tandem.data("x", [None, 4])
            doubled = x + x
        self.run_once(rows)
        for feed in (rows, fewer, lists, {**rows, "x": rows["x"].T.copy().T}, rows):
            before = self.scope.step
            expected = self.exe.run(self.program.clone(), feed, [self.loss.name], self.copy())
            self.assertEqual(self.run_once(feed)[0].tobytes(), expected[0].tobytes())
            self.assertEqual(self.scope.step, before + 1)
        self.assertEqual(len(self.run_once(rows, ["fc_0.w", self.loss])), 2)
        got, = self.exe.run(other, {"x": rows["x"]}, [doubled], self.scope)
        self.assertTrue(numpy.array_equal(got, 2 * rows["x"]))
        for wrong in ({"x": rows["x"]}, {**rows, "y": rows["x"]}, {**rows, "x": rows["x"].astype("f8")}):
            self.run_once(rows)
            before = self.scope.step
            with self.assertRaises(errors.Error):
                self.run_once(wrong)
            self.assertEqual(self.scope.step, before)

    def test_an_error_in_a_run_of_the_recent_plan_leaves_the_step(self):
        def stop(iteration):
            if iteration == 2:
                raise ZeroDivisionError

        self.run_once()
        self.run_once()
        with self.assertRaises(ZeroDivisionError):
            self.run_once(iterations=3, before_iteration=stop)
        self.assertEqual(self.scope.step, 2)

    def copy(self):
        """A scope with the values of this scope."""
        scope = tandem.Scope()
        for name in self.scope.names():
            scope.set(name, self.scope.get(name))
        scope.step = self.scope.step
        return scope

    def test_plans_end_with_their_program(self):
        self.run_once()
        self.assertEqual(len(self.scope._plans), 1)
        self.program = self.startup = self.loss = None
        gc.collect()
        self.assertEqual(len(self.scope._plans), 0)
        self.assertIsNone(self.scope._recent)


class Threads(Runs):
    def test_two_programs_in_two_threads(self):
        """Each thread builds and trains; results are those of one thread."""
        results, failed, all_inside = {}, [], threading.Barrier(4)

        def train(name, size):
            try:
                with tandem.program_guard(tandem.Program(name)) as (program, startup):
                    all_inside.wait(30)
                    self.assertIs(tandem.default_main_program(), program)
                    loss = case.mlp((size,))
                    tandem.optimizer.Adam(0.01).minimize(loss)
                scope, exe = tandem.Scope(), tandem.Executor(threads=1)
                exe.run(startup, scope=scope)
                for step in range(200):
                    exe.run(program, case.rows(seed=step), [loss], scope)
                results.setdefault(name[0], []).append(tandem.params_sha256(program, scope))
            except BaseException as error:  # pylint: disable=broad-except
                failed.append(error)

        threads = [threading.Thread(target=train, args=(f"{n}{i}", n)) for n in (8, 64) for i in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual([len(set(values)) for values in results.values()], [1, 1])

    def test_threads_share_a_scope(self):
        """Each thread gets the result of its own arrays, and each step counts once."""
        self.start()
        program = tandem.Program("large")
        with tandem.program_guard(program):
            out = tandem.ops.scale(tandem.data("x", [400, 1000]), scale=2.0)
        failed = []

        def work(number):
            try:
                feed = {"x": numpy.full((400, 1000), number, "f4")}
                for _ in range(50):
                    got, = self.exe.run(program, feed, [out], self.scope)
                    if not (got == 2 * number).all():
                        raise AssertionError(f"thread {number} got {numpy.unique(got)}")
                    self.run_once()
            except BaseException as error:  # pylint: disable=broad-except
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])
        self.assertEqual(self.scope.step, 150)

    def test_a_run_releases_pythons_lock(self):
        program = tandem.Program("slow")
        with tandem.program_guard(program):
            x = tandem.data("x", [600, 600])
            for _ in range(60):
                out = x = tandem.ops.matmul(x, x)
        feed = {"x": numpy.eye(600, dtype="f4")}
        self.exe.run(program, feed, [out], self.scope)
        count, stop = [0], threading.Event()

        def tick():
            while not stop.is_set():
                count[0] += 1
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        begin, first = time.monotonic(), count[0]
        self.exe.run(program, feed, [out], self.scope)
        seconds, ticks = time.monotonic() - begin, count[0] - first
        stop.set()
        thread.join()
        self.assertGreater(ticks, seconds * 50, f"{ticks} ticks in {seconds} s")


class Callbacks(Runs):
    def setUp(self):
        super().setUp()
        self.start()

    def test_an_exception_in_a_callback_ends_the_run(self):
        def before(iteration):
            if iteration == 2:
                raise KeyError("from the callback")

        with self.assertRaisesRegex(KeyError, "from the callback"):
            self.run_once(iterations=5, before_iteration=before)
        self.assertEqual(self.scope.step, 0)
        self.assert_lives()

    def test_wrong_arrays_of_a_callback(self):
        for value, kind in (({"x": numpy.zeros((8, 4))}, ValueError), ({"y": 1}, LookupError),
                            (3, (RuntimeError, TypeError))):
            with self.subTest(str(kind)), self.assertRaises(kind):
                self.run_once(iterations=2, before_iteration=lambda i, v=value: v)
            self.assert_lives()

    def test_a_callback_reads_results_and_runs_other_programs(self):
        test = tandem.Program("other")
        with tandem.program_guard(test):
            out = tandem.ops.scale(tandem.data("y", [1]), scale=2.0)
        weights, others = [], []

        def before(_):
            weights.append(self.scope.get("fc_0.w"))
            others.extend(self.exe.run(test, {"y": [3]}, [out], self.scope))

        self.run_once(iterations=3, before_iteration=before)
        self.assertEqual(len(weights), 3)
        self.assertFalse((weights[1] == weights[2]).all())
        self.assertEqual([float(v[0]) for v in others], [6, 6, 6])

    def test_a_callback_cannot_run_its_own_program(self):
        with self.assertRaisesRegex(RuntimeError, "cannot run the same program again"):
            self.run_once(iterations=2, before_iteration=lambda _: self.run_once() and None)
        self.assert_lives()


class Processes(unittest.TestCase):
    """What ends, or nearly ends, a process runs in a separate one."""

    PRELUDE = """
import sys
sys.path[:0] = {path!r}
import os, signal, numpy
import tandem_case as case
from tandem_case import tandem
with tandem.program_guard(tandem.Program("net")) as (program, startup):
    loss = case.mlp()
    tandem.optimizer.SGD(0.1).minimize(loss)
exe = tandem.Executor(threads=2)
exe.run(startup)
feed = case.rows()
exe.run(program, feed, [loss])
"""

    def process(self, text):
        path = [p for p in sys.path if p]
        command = [sys.executable, "-B", "-c", self.PRELUDE.format(path=path) + text,
                   f"--build={script.BUILD}", f"--source={script.SOURCE}"]
        # A separate session, so that a failed test leaves no process.
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, start_new_session=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(self.end, child)
        return child

    @staticmethod
    def end(child):
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def test_ctrl_c_ends_a_run_after_an_iteration(self):
        child = self.process("""
print("running", flush=True)
try:
    exe.run(program, feed, [loss], iterations=2000000000)
except KeyboardInterrupt:
    value, = exe.run(program, feed, [loss])
    print("interrupted", numpy.isfinite(value).all(), flush=True)
""")
        self.assertEqual(child.stdout.readline(), "running\n")
        time.sleep(0.5)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual((out, child.returncode), ("interrupted True\n", 0))
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_forked_child_is_refused(self):
        child = self.process("""
pid = os.fork()
if pid == 0:
    try:
        exe.run(program, feed, [loss])
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
exe.run(program, feed, [loss])
print("the parent continues", flush=True)
""")
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, out)
        self.assertIn("forked from a process that had already run programs", out)
        self.assertIn("hint: multiprocessing", out)
        self.assertIn("the parent continues", out)


class Errors(unittest.TestCase):
    def test_each_kind_has_a_class(self):
        for status in ("ABORTED", "CANCELLED", "DATA_LOSS", "INTERNAL", "OUT_OF_RANGE",
                       "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED", "UNAVAILABLE",
                       "UNIMPLEMENTED", "ALREADY_EXISTS", "FAILED_PRECONDITION"):
            error = errors.from_status(status, "it failed [TD1234]", "do this", False)
            self.assertEqual((error.status, error.code, error.hint), (status, "TD1234", "do this"))
            self.assertEqual(str(error), "it failed [TD1234]; hint: do this")
        self.assertIsInstance(errors.from_status("DEADLINE_EXCEEDED", "m", "", False), TimeoutError)
        self.assertIsInstance(errors.from_status("NOT_FOUND", "m", "", True), FileNotFoundError)
        self.assertNotIsInstance(errors.from_status("NOT_FOUND", "m", "", False), OSError)
        self.assertEqual(type(errors.from_status("NEW", "m", "", False)), errors.Error)


if __name__ == "__main__":
    script.main()
