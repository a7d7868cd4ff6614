"""Ordinary modules of torchvision and transformers, of random weights and small sizes, trained by
Tandem beside PyTorch: `tandem.torch.from_torch`, 20 steps of SGD on the same data, `state_dict`.

    PYTHONPATH=tests/support python3 tests/python/torch_zoo.py --build=build --modules=resnet18,bert

A line per module has the largest relative difference of a loss, the times, and whether it passes. The
script runs by hand, because Debian lacks both packages. docs/project/benchmarks/onnx-default-exporter.md
has the results. Exit code 1: a module fails; 77: a package is missing."""

import argparse
import copy
import importlib
import sys
import time
import warnings

import script

MISSING = []
for package in ("torch", "torchvision", "transformers", "onnx"):
    try:
        importlib.import_module(package)
    except ImportError as missing:
        MISSING.append(f"{package} ({missing})")
if MISSING:
    script.skip("the script needs these packages of Python: " + ", ".join(MISSING))
# pylint: disable=wrong-import-position
import numpy
import torch
import tandem_case  # pylint: disable=unused-import
import tandem
import tandem.torch
import torch_zoo_modules

STEPS, TOLERANCE = 20, 1e-5
OUTPUT = 1e-4  # of outputs after the training, relative to the largest
FACTOR = 10  # of the distance of PyTorch from float64


def without_chance(module):
    """Sets the rates of dropout to 0: PyTorch and Tandem draw different elements."""
    for part in module.modules():
        if isinstance(getattr(part, "p", None), float):
            part.p = 0.0
    return module


def loss_of(module, case, inputs, label):
    return torch.nn.functional.cross_entropy(
        module(*inputs).reshape(-1, case.classes), label.reshape(-1))


def feed_of(converted, inputs, label):
    feed = {var.name: x.numpy() for var, x in zip(converted.inputs, inputs)}
    feed["label"] = (label if label.dim() > 1 else label.reshape(-1, 1)).numpy()
    return feed


def train_torch(module, case, batches, rate):
    """Trains the module. Returns the losses and the seconds."""
    double = next(module.parameters()).dtype == torch.float64
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), rate)
    losses, begin = [], time.monotonic()
    for inputs, label in batches:
        inputs = [x.double() if double and x.is_floating_point() else x for x in inputs]
        optimizer.zero_grad()
        loss = loss_of(module, case, inputs, label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.monotonic() - begin


def train_tandem(converted, batches, rate, scope):
    """Trains the program. Returns the losses and the seconds."""
    program = converted.program
    with tandem.program_guard(program):
        tandem.optimizer.SGD(rate).minimize(program.loss)
    exe = tandem.Executor()
    exe.run(converted.startup(), scope=scope)
    losses, begin = [], time.monotonic()
    for inputs, label in batches:
        loss, = exe.run(program, feed_of(converted, inputs, label), [program.loss], scope=scope)
        losses.append(float(loss.reshape(())))
    return losses, time.monotonic() - begin


def step_by_step(converted, module, case, batches, scope):
    """Trains the module, and lets Tandem do each step from PyTorch's values. Returns the largest
    relative difference of a loss, and the largest distance of a change by a step from that in float64,
    relative to the change: that of Tandem and that of PyTorch."""
    program, exe, double = converted.program, tandem.Executor(), copy.deepcopy(module).double()
    optimizer = torch.optim.SGD(module.parameters(), case.rate)
    loss_difference = mine_wrong = theirs_wrong = 0.0
    for inputs, label in batches:
        before = {name: p.detach().double() for name, p in module.named_parameters()}
        double.load_state_dict(module.state_dict())
        double.zero_grad()
        loss_of(double, case, [x.double() if x.is_floating_point() else x for x in inputs],
                label).backward()
        exact = {name: -case.rate * p.grad for name, p in double.named_parameters()}
        converted.load_state_dict(module.state_dict(), scope)
        mine, = exe.run(program, feed_of(converted, inputs, label), [program.loss], scope=scope)
        optimizer.zero_grad()
        loss = loss_of(module, case, inputs, label)
        loss.backward()
        optimizer.step()
        loss_difference = max(loss_difference, abs(float(mine.reshape(())) / loss.item() - 1))
        after = converted.state_dict(scope)
        size = distance(exact, {name: 0 for name in exact})
        mine_wrong = max(mine_wrong, distance(
            exact, {name: after[name].double() - before[name] for name in exact}) / size)
        theirs_wrong = max(theirs_wrong, distance(
            exact, {name: p.detach().double() - before[name]
                    for name, p in module.named_parameters()}) / size)
    return loss_difference, mine_wrong, theirs_wrong


def distance(some, others):
    return sum(float((value - others[name]).square().sum()) for name, value in some.items()) ** 0.5


def farthest(some, others):
    """Returns the largest relative difference of two lists of losses."""
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(some, others))


def output_of(module, inputs):
    with torch.no_grad():
        return module(*inputs)


def compare(name, case):
    """Trains the module in both ways. Returns the results of the comparison by name."""
    torch.manual_seed(3)
    module = without_chance(case.make()).float()
    torch.manual_seed(11)
    batches = [case.draw() for _ in range(STEPS)]
    double, fresh = copy.deepcopy(module).double(), copy.deepcopy(module)
    scope, begin = tandem.Scope(), time.monotonic()
    converted = tandem.torch.from_torch(module, batches[0][0], loss="softmax", scope=scope)
    found = {"conversion": time.monotonic() - begin}
    for key, value in converted.state_dict(scope).items():
        assert torch.equal(value, module.state_dict()[key]), f"{key} changed by the conversion"
    mine, found["tandem"] = train_tandem(converted, batches, case.rate, scope)
    theirs, found["torch"] = train_torch(module, case, batches, case.rate)
    exact, _ = train_torch(double, case, batches, case.rate)
    back = copy.deepcopy(module)
    back.load_state_dict(converted.state_dict(scope))
    found["difference"] = farthest(mine, theirs)
    found["to f64"], found["torch to f64"] = farthest(mine, exact), farthest(theirs, exact)
    found["first"], found["last"] = mine[0], mine[-1]
    # Statistics of the batch, because the running variance of Tandem is that over n elements.
    wanted, given = output_of(module, batches[0][0]), output_of(back, batches[0][0])
    found["output"] = float((wanted - given).abs().max() / wanted.abs().max())
    program_output, = tandem.Executor().run(
        converted.program, feed_of(converted, *batches[0]), [converted.output], scope=scope)
    # The run above did one more step, from the values of `back`.
    found["back"] = float((given - torch.from_numpy(program_output)).abs().max() / given.abs().max())
    if found["difference"] > TOLERANCE:
        found["step loss"], found["step change"], found["torch step change"] = step_by_step(
            converted, fresh.train(), case, batches, scope)
    return found


def passed(case, found):
    """A loss differs by at most 1e-5. A module in which the roundings of float32 grow passes besides
    if PyTorch is as far from float64, and each single step from equal values is equal."""
    near, output = found["difference"] <= TOLERANCE, found["output"] <= OUTPUT
    if not near and case.grows and found["torch to f64"] > TOLERANCE:
        near = (found["to f64"] <= FACTOR * found["torch to f64"]
                and found["step loss"] <= TOLERANCE
                and found["step change"] <= FACTOR * found["torch step change"])
        output = True
    return near and output and found["back"] <= OUTPUT and found["first"] != found["last"]


def line_of(name, found, passes):
    text = (f"{name}: difference {found['difference']:.1e}, to float64 {found['to f64']:.1e} "
            f"(PyTorch {found['torch to f64']:.1e}), ")
    if "step loss" in found:
        text += (f"step by step {found['step loss']:.1e} of a loss and {found['step change']:.1e} of a "
                 f"change (PyTorch {found['torch step change']:.1e}), ")
    return text + (
        f"outputs {found['output']:.1e} and {found['back']:.1e}, loss {found['first']:.4f} to "
        f"{found['last']:.4f}, {STEPS} steps {found['tandem']:.2f} s (PyTorch {found['torch']:.2f} s),"
        f" conversion {found['conversion']:.1f} s, {'passed' if passes else 'FAILED'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--source")
    parser.add_argument("--modules", default="", help="names, with commas; default: all")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = torch_zoo_modules.CASES
    names = given.modules.split(",") if given.modules else list(cases)
    unknown = [name for name in names if name not in cases]
    if unknown:
        sys.exit(f"--modules: no module {', '.join(unknown)}; there are {', '.join(cases)}")
    versions = (f"{package} {importlib.import_module(package).__version__}"
                for package in ("torch", "torchvision", "transformers", "onnx", "numpy"))
    print(", ".join(versions), f"{torch.get_num_threads()} threads", sep=", ")
    failures = 0
    for name in names:
        try:
            found = compare(name, cases[name])
        except Exception as error:  # pylint: disable=broad-except
            failures += 1
            print(f"{name}: FAILED, {type(error).__name__}: {str(error).strip()[:2000]}", flush=True)
            continue
        passes = passed(cases[name], found)
        failures += 0 if passes else 1
        print(line_of(name, found, passes), flush=True)
    print(f"{len(names) - failures} of {len(names)} modules pass")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
