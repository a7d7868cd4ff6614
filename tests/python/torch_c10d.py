#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed, on the backend `tandem` with CPU tensors.

usage: python3 tests/python/torch_c10d.py [--build=build] [--list] [TEST ...]

The program runs by hand, with a PyTorch whose wheel has torch/testing/_internal/distributed (those
of PyPI have it, Debian's does not), expecttest and numpy. It takes the class DistributedTest of this
PyTorch, and runs each test in 4 processes that it forks, or in 8 where the test asks for them.
PyTorch lets each test run only for backends that the test names. Therefore:

  LIFTED      conditions of PyTorch that name other backends, of tests that `tandem` runs
  REASONS     conditions of PyTorch that stay, and why these tests do not apply to the backend
  NAMES       tests that would run with LIFTED, and why they do not apply

A test that is skipped without a row in REASONS or NAMES is an error, as is a row of NAMES without a
test. Exit code 0: all tests that apply passed."""

import argparse
import collections
import multiprocessing
import os
import re
import sys
import tempfile
import time
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
TIMEOUT_S = 120  # of a test
RANKS, MORE_RANKS = 4, 8
FEW = "Skipped due to small world size."  # PyTorch's reason for a test that needs MORE_RANKS

LIFTED = (
    r"Test requires backend tandem to be one of .*'gloo'",
    r"Only MPI supports all_to_all$",
    r"Only MPI supports CPU all_to_all_single$",
    r"Only gloo backend supports timeouts$",
    r"GLOO Batch Send Recv CPU$",
    r"get_future is only supported on mpi, nccl and gloo$",
    r"Only Nccl & Gloo backend support DistributedDataParallel$",
)

CUDA = "needs CUDA or NCCL; the backend has CPU tensors"
DISABLED = "PyTorch itself skips this test, with all backends"
REASONS = {
    r"CUDA|Nccl|NCCL|'nccl'|accelerator": CUDA,
    r"Only Gloo backend supports sparse all reduce": "sparse tensors, which the backend refuses",
    r"github.com/pytorch/pytorch/(issues|pull)": DISABLED,
}

# The body of these tests chooses tensors by the name of the backend, and knows CPU tensors of gloo.
AS_GLOO = ("test_accumulate_gradients_no_sync",)

ANY_SOURCE = "recv from any rank, which the backend refuses"
NAMES = {
    "test_broadcast_object_list": DISABLED,
    "test_send_recv_any_source": ANY_SOURCE,
    "test_send_recv_any_source_autograd_profiler": ANY_SOURCE,
    "test_send_recv_any_source_torch_profiler": ANY_SOURCE,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--list", action="store_true", help="print the tests and end")
    parser.add_argument("tests", nargs="*", metavar="TEST")
    return parser.parse_args()


def load(given, folder):
    """Returns the module with PyTorch's tests. It reads these variables when it is imported."""
    os.environ.update(BACKEND="tandem", WORLD_SIZE=str(RANKS), TEMP_DIR=folder,
                      INIT_METHOD=f"file://{folder}/shared_init_file",
                      CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1",
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(TIMEOUT_S))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    sys.path.insert(0, os.path.join(given.build, "python"))
    try:
        # pylint: disable=import-outside-toplevel
        import torch.testing._internal.common_distributed as common
        import tandem.torch  # pylint: disable=unused-import
        for feature in ("ddp", "subgroup"):
            common.DistTestCases.backend_feature[feature].add("tandem")
        import torch.testing._internal.distributed.distributed_test as tests
    except ImportError as error:
        sys.exit(f"torch_c10d: error: {error}\nhint: use a Python with PyTorch of PyPI, expecttest "
                 f"and numpy, and build the target tandem_core")
    return tests


def why_not(test):
    """Returns PyTorch's condition that skips a test; "": it runs."""
    return getattr(test, "__unittest_skip_why__", "") \
        if getattr(test, "__unittest_skip__", False) else ""


def lift(base):
    """Removes the conditions of LIFTED."""
    for name in sorted(dir(base)):
        if name.startswith("test_") and any(re.match(text, why_not(getattr(base, name)))
                                            for text in LIFTED):
            getattr(base, name).__unittest_skip__ = False


def applies_not(name, condition):
    """Returns the row of the tables for a skipped test; "": there is none."""
    if name in NAMES:
        return NAMES[name]
    return next((why for text, why in REASONS.items() if re.search(text, condition)), "")


def last_error(text):
    """Returns the line of an exception from a text with tracebacks."""
    lines = [line for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return lines[-1] if lines else (text.strip().splitlines() or ["no text"])[-1]


class Result(unittest.TextTestResult):
    """The outcome of each test by its name: (passed, skipped or FAILED, reason)."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.outcome = collections.OrderedDict()
        self.begin = 0.0

    def note(self, test, kind, text=""):
        """Notes an outcome. A test that has failed stays failed."""
        name = test.id().split(".")[-1]
        if self.outcome.get(name, ("",))[0] == "FAILED":
            return
        self.outcome[name] = (kind, text)
        print(f"{kind} {name} {time.monotonic() - self.begin:.1f} s {text}".strip(), flush=True)

    def startTest(self, test):
        self.begin = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "FAILED", last_error(str(err[1])))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "FAILED", last_error(str(err[1])))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note(test, "FAILED", last_error(str(err[1])))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "passed")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "FAILED", "passed, but is marked as an expected failure")


def run(case, names):
    """Runs the tests, and those that ask for more ranks again. Returns the outcomes by name."""
    outcome = {}
    for ranks in (RANKS, MORE_RANKS):
        os.environ["WORLD_SIZE"] = str(ranks)
        suite = unittest.TestSuite(case(name) for name in names)
        found = unittest.TextTestRunner(resultclass=Result, verbosity=0).run(suite).outcome
        outcome.update(found)
        for name in names:
            outcome.setdefault(name, ("FAILED", "no outcome"))
        names = [name for name, (_, text) in found.items() if text == FEW]
    return outcome


def report(outcome, complete):
    """Prints the counts. Returns whether nothing failed and each skipped test has a row."""
    counts, errors = collections.Counter(), []
    for name, (kind, text) in outcome.items():
        if kind == "skipped":
            why = applies_not(name, text)
            counts[f"does not apply: {why}"] += 1
            if not why:
                errors.append(f"{name}: skipped without a row: {text}")
        else:
            counts[kind] += 1
            if kind == "FAILED":
                errors.append(f"{name}: failed: {text}")
    if complete:
        errors += [f"{name}: NAMES has it, PyTorch does not" for name in NAMES
                   if name not in outcome]
    print(f"{len(outcome)} tests")
    for what, count in counts.most_common():
        print(f"{count:4} {what}")
    print(*errors, sep="\n")
    return not errors


def main():
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="tandem-c10d-") as folder:
        tests = load(given, folder)
        base = tests.DistributedTest._DistTestBase
        lift(base)

        class Tandem(tests.TestDistBackend, base):
            """PyTorch's tests, each in forked processes."""

            def setUp(self):
                super().setUp()
                self._start_processes(multiprocessing.get_context("fork").Process)

            def run_test(self, test_name, parent_pipe):
                if test_name.startswith(AS_GLOO):
                    tests.BACKEND = "gloo"
                super().run_test(test_name, parent_pipe)

        names = given.tests or [name for name in sorted(dir(base)) if name.startswith("test_")]
        if given.list:
            print(*names, sep="\n")
            return 0
        for name in set(names) & set(NAMES):
            setattr(Tandem, name, unittest.skip(NAMES[name])(lambda self: None))
        return 0 if report(run(Tandem, names), not given.tests) else 1


if __name__ == "__main__":
    sys.exit(main())
