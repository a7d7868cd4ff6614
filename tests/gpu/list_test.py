"""The GPU list itself, as small as it goes, over the CUDA of host memory (tests/cuda_on_host): every
step runs to its end and says what it shows, or why it does not. And that the CUDA module is built
when it is asked for, and said to be missing when it cannot be."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import script

TESTS = os.path.join(script.BUILD, "tests")
LIST = os.path.join(script.SOURCE, "tests", "gpu", "gpu_list.py")
PROGRAMS = {"bin/tandem-trainer": os.path.join(script.BIN, "tandem-trainer"),
            "bin/tandem-pserver": os.path.join(script.BIN, "tandem-pserver"),
            "bin/tandemrun": os.path.join(script.BIN, "tandemrun"),
            "tests/gpu_kernels_test": os.path.join(TESTS, "cuda_on_host_test"),
            "tests/gpu_models_test": os.path.join(TESTS, "cuda_on_host_test"),
            "lib/libcupti.so.13": os.path.join(TESTS, "cuda_on_host", "lib", "libcupti.so.13"),
            "lib/libtandem_cuda.so": os.path.join(TESTS, "cuda_on_host", "lib", "libtandem_cuda.so")}


def run_list(folder, device, *flags):
    """Exit code, steps by name, and what was said. What ran stays in gpu.json."""
    root, path = os.path.join(folder, "root"), os.path.join(folder, "path")
    os.makedirs(path, exist_ok=True)
    for name, program in PROGRAMS.items():
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        shutil.copy(program, os.path.join(root, name))
    with open(os.path.join(path, "nvidia-smi"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + ("echo a stand-in\n" if device else "exit 9\n"))
    os.chmod(os.path.join(path, "nvidia-smi"), 0o755)
    done = subprocess.run([sys.executable, LIST, "--root=" + root, "--out=" + folder, "--small", *flags],
                          env=dict(os.environ, PATH=path + ":" + os.environ["PATH"]),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=550,
                          check=False)
    with open(os.path.join(folder, "gpu.json"), encoding="utf-8") as file:
        steps = {step["name"]: step for step in json.load(file)["steps"]}
    return done.returncode, steps, done.stdout


class GpuList(unittest.TestCase):
    def test_every_step_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            code, steps, text = run_list(folder, device=True)
            self.goes_on(folder, steps)
        wrong = [f"{name}: {step['text']}" for name, step in steps.items() if step["ok"] is False]
        self.assertEqual((code, wrong), (0, []), text)
        for name in ("device", "gpu_models_test", "kernels: Loss", "losses of lenet",
                     "losses of deepfm", "losses of images on the device", "AMP scale",
                     "deepfm with a pserver, both on the card", "lenet b4", "knob as it is",
                     "profile", "knob fraction_of_gpu_memory_to_use=0"):
            self.assertIs(steps[name]["ok"], True, text)
        self.assertGreater(steps["lenet b4"]["samples_per_s"], 0)
        self.assertGreater(steps["lenet b4"]["card_share"], 0)
        self.assertIn("of the card's limit (", steps["lenet b4"]["text"])
        calls = [steps["knob fraction_of_gpu_memory_to_use=" + f]["counts"]["device.driver_calls"]
                 for f in ("0", "0.5")]
        self.assertGreater(calls[0], calls[1])
        launches = [steps["knob cuda_graph=" + value]["counts"]["device.launches"]
                    for value in ("false", "true")]
        self.assertGreater(launches[0], 2 * launches[1])
        self.assertIsNone(steps["waits for communication on the device"]["ok"])

    def goes_on(self, folder, steps):
        """A run that the time did not suffice for is ended by another one."""
        path = os.path.join(folder, "before.json")
        with open(os.path.join(folder, "gpu.json"), encoding="utf-8") as file:
            before = json.load(file)
        self.assertEqual(before["done"]["AMP scale"], [steps["AMP scale"]])
        del before["done"]["AMP scale"]
        before["done"]["lenet b4"][0]["text"] = "as it was"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(before, file)
        _, after, _ = run_list(folder, True, "--resume=" + path)
        self.assertEqual(set(after), set(steps))
        self.assertEqual(after["lenet b4"]["text"], "as it was")
        self.assertNotEqual(after["AMP scale"]["at_s"], steps["AMP scale"]["at_s"])

    def test_without_a_device_nothing_is_claimed(self):
        with tempfile.TemporaryDirectory() as folder:
            code, steps, _ = run_list(folder, device=False)
        self.assertEqual(code, 3)
        self.assertEqual({step["ok"] for step in steps.values()}, {None})


class BuildModes(unittest.TestCase):
    def configure(self, mode, *more):
        """Exit code, what CMake says, and whether it would build the module."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["cmake", "-S", script.SOURCE, "-B", folder, "-G", "Ninja",
                                   "-DTANDEM_TESTS=OFF", "-DTANDEM_CUDA=" + mode, *more],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=300, check=False)
            targets = ""
            if done.returncode == 0:
                targets = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"],
                                         stdout=subprocess.PIPE, text=True, check=True).stdout
        return done.returncode, done.stdout, "libtandem_cuda.so" in targets

    def test_off_auto_and_on(self):
        code, text, module = self.configure("OFF")
        self.assertEqual((code, module), (0, False), text)
        self.assertIn("CUDA module OFF (TANDEM_CUDA=OFF)", text)
        code, text, found = self.configure("AUTO")
        self.assertEqual(code, 0, text)
        self.assertIn(f"CUDA module {'ON' if found else 'OFF'} (TANDEM_CUDA=AUTO)", text)
        code, text, module = self.configure("ON")
        self.assertEqual((code == 0, module), (found, found), text)

    def test_without_nvcc(self):
        code, text, module = self.configure("AUTO", "-DTANDEM_NVCC=")
        self.assertEqual((code, module), (0, False), text)
        code, text, _ = self.configure("ON", "-DTANDEM_NVCC=")
        self.assertNotEqual(code, 0)
        self.assertIn("TANDEM_CUDA=ON, but nvcc", text)


if __name__ == "__main__":
    script.main()
