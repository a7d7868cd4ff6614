"""A file of the CUDA module with hot kernels does not compile if a kernel spills registers, on any
architecture that is built for. The build itself compiles the real kernels in the same way."""

import json
import os
import shlex
import subprocess
import tempfile
import unittest

import script

ARCHITECTURES = ("sm_80", "sm_90")
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
    """How the build compiles each file with hot kernels: arguments, folder."""
    with open(os.path.join(script.BUILD, "compile_commands.json"), encoding="utf-8") as file:
        rows = json.load(file)
    return {os.path.basename(row["file"]): (shlex.split(row["command"]), row["directory"])
            for row in rows if "-Xptxas=--warning-as-error" in row["command"]}


def compile_text(command, folder, text, architecture):
    """Compiles a text in place of the source of `command`, for one architecture."""
    arguments, skip = [], 0
    for argument in command:
        if skip:
            skip -= 1
        elif argument in ("-o", "-c", "-MT", "-MF"):
            skip = 1
        elif argument != "-MD" and not argument.startswith("--generate-code"):
            arguments.append(argument)
    number = architecture.removeprefix("sm_")
    with tempfile.TemporaryDirectory() as place:
        source = os.path.join(place, "kernel.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        return subprocess.run(
            arguments + [f"--generate-code=arch=compute_{number},code={architecture}", "-c", source,
                         "-o", os.path.join(place, "x.o")],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
            check=False)


class Spills(unittest.TestCase):
    def test_a_kernel_that_spills_does_not_compile(self):
        commands = build_commands()
        if not commands:
            script.skip("the CUDA toolkit is not one whose spills are known")
        self.assertIn("optimizer_cuda.cu", commands)
        command, folder = commands["softmax_cuda.cu"]
        for architecture in ARCHITECTURES:
            self.assertIn(architecture, " ".join(command))
            failed = compile_text(command, folder, SPILLS, architecture)
            self.assertNotEqual(failed.returncode, 0, failed.stdout)
            self.assertIn("Registers are spilled", failed.stdout)
            done = compile_text(command, folder, SPILLS.replace("1024, 2", "64"), architecture)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    script.main()
