"""No hot kernel spills registers, on any architecture that is built for: their files are compiled as
the build compiles them, and ptxas says what it made of each kernel."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

import script

ARCHITECTURES = ("sm_80", "sm_90")
# The kernels of a training step, by file.
HOT = {
    "activation": ["MapKernel"],
    "batch_norm": ["ColumnSumsKernel", "ForEachKernel", "RowSumsKernel"],
    "dgc": ["CountKernel", "DigitKernel", "PartsKernel", "PlacesKernel", "SelectKernel"],
    "dropout": ["DropoutKernel"],
    "elementwise": ["ForEachKernel"],
    "layer_norm": ["ColumnSumsKernel", "LayerNormGradKernel", "LayerNormKernel"],
    "lookup_table": ["ForEachKernel"],
    "loss_scaling": ["MapKernel"],
    "optimizer": ["UpdateKernel", "UpdateRowsKernel", "UpdateEveryRowKernel"],
    "pool2d": ["ForEachKernel"],
    "reduce": ["ReduceKernel"],
    "sample_image": ["ForEachKernel"],
    "softmax": ["LossGradKernel", "LossKernel", "SoftmaxGradKernel", "SoftmaxKernel"],
    "sparse_rows": ["DeviceRadixSortOnesweepKernel", "ForEachKernel"],
}
# 64 sums that all live to the end need more than the 32 registers that are left with 2048 threads.
SPILLS = """
__global__ void __launch_bounds__(1024, 2) Spills(const float* x, float* y, int n) {
  float sums[64];
#pragma unroll
  for (int k = 0; k < 64; ++k) sums[k] = x[threadIdx.x * 64 + k];
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int k = 0; k < 64; ++k) sums[k] = sums[k] * sums[(k * 7 + 3) % 64] + x[i];
  }
#pragma unroll
  for (int k = 0; k < 64; ++k) y[threadIdx.x * 64 + k] = sums[k];
}
"""


def build_commands():
    """How the build compiles each file of the CUDA module: arguments, folder."""
    with open(os.path.join(script.BUILD, "compile_commands.json"), encoding="utf-8") as file:
        rows = json.load(file)
    return {os.path.basename(row["file"]): (shlex.split(row["command"]), row["directory"])
            for row in rows if "tandem_cuda.dir" in row["command"]}


def compile_with_report(command, folder, source):
    """What ptxas says when `source` is compiled by a command of the build, demangled."""
    arguments, skip = [], 0
    for argument in command:
        if skip:
            skip -= 1
        elif argument in ("-o", "-c", "-MT", "-MF"):
            skip = 1
        elif argument != "-MD":
            arguments.append(argument)
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run(arguments + ["-Xptxas=-v", "-c", source, "-o", out + "/x.o"],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    return subprocess.run(["c++filt"], input=done.stdout, stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def kernels_of(report):
    """(kernel, architecture, bytes stored in spills, bytes loaded from them)"""
    entry = re.compile(r"Compiling entry function '(.*)' for '(sm_\w+)'")
    spills = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
    kernels, now = [], None
    for line in report.splitlines():
        if found := entry.search(line):
            now = found.groups()
        elif (found := spills.search(line)) and now is not None:
            kernels.append((*now, int(found.group(1)), int(found.group(2))))
            now = None
    return kernels


class Spills(unittest.TestCase):
    def test_hot_kernels_have_none(self):
        commands = build_commands()
        for family, hot in HOT.items():
            command, folder = commands[f"{family}_cuda.cu"]
            source = command[command.index("-c") + 1]
            kernels = kernels_of(compile_with_report(command, folder, source))
            for name in hot:
                for architecture in ARCHITECTURES:
                    rows = [k for k in kernels if f"::{name}" in k[0] and k[1] == architecture]
                    self.assertTrue(rows, f"{family}: no {name} for {architecture}")
            for kernel, architecture, stores, loads in kernels:
                self.assertEqual((stores, loads), (0, 0), f"{architecture}: {kernel} spills")
            print(f"{family}: {len(kernels)} kernels without spills")

    def test_a_kernel_that_spills_is_seen(self):
        command, folder = build_commands()["softmax_cuda.cu"]
        with tempfile.TemporaryDirectory() as place:
            source = os.path.join(place, "spills.cu")
            with open(source, "w", encoding="utf-8") as file:
                file.write(SPILLS)
            kernels = kernels_of(compile_with_report(command, folder, source))
        self.assertEqual({k[1] for k in kernels}, set(ARCHITECTURES))
        for kernel in kernels:
            self.assertGreater(kernel[2] + kernel[3], 0, kernel)


if __name__ == "__main__":
    script.main()
