"""A LeNet made with python3-onnx becomes a program, trains, and goes out again as a model."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import script

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "torch"))
script.need_modules("numpy", "onnx", package="python3-onnx")
# pylint: disable=wrong-import-position
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import numpy_engine
import safetensors_io

JOB = """
name: "imported"
model { program: "model.pbtxt" parameters: "model.safetensors" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 256 test_samples: 64 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 64
epochs: 10
eval_every_epochs: 0
log_every_steps: 1
"""


def flattening(way):
    """Nodes from p2 to f, and the batch that the model is for, as torch.onnx writes them for
    flatten, and for view in a model with any batch or with one."""
    if way == "flatten":
        return [helper.make_node("Flatten", ["p2"], ["f"], axis=1)], [], "n"
    minus = numpy_helper.from_array(np.array([-1]), "minus")
    if way == "view of one":
        ints = numpy_helper.from_array(np.array([1, -1]), "flat")
        return [helper.make_node("Reshape", ["p2", "flat"], ["f"])], [ints], 1
    zero = numpy_helper.from_array(np.array(0), "zero")
    axes = numpy_helper.from_array(np.array([0]), "axes")
    return [helper.make_node("Shape", ["p2"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "zero"], ["size"], axis=0),
            helper.make_node("Unsqueeze", ["size", "axes"], ["first"]),
            helper.make_node("Concat", ["first", "minus"], ["flat"], axis=0),
            helper.make_node("Reshape", ["p2", "flat"], ["f"])], [minus, zero, axes], "n"


def lenet(random, way="flatten"):
    """LeNet as torch.onnx writes it: weights [n,k] with transB, a softmax at the end."""
    def draw(*shape):
        return (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    weights = {"conv1.weight": draw(6, 1, 5, 5), "conv1.bias": draw(6),
               "conv2.weight": draw(16, 6, 5, 5), "conv2.bias": draw(16),
               "onnx::fc1": draw(120, 400), "fc1.bias": draw(120),
               "fc2.weight": draw(84, 120), "fc2.bias": draw(84),
               "fc3.weight": draw(10, 84), "fc3.bias": draw(10)}
    flat, ints, batch = flattening(way)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["input.1", "conv1.weight", "conv1.bias"], ["c1"],
                         kernel_shape=[5, 5], pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], **pool),
        helper.make_node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"],
                         kernel_shape=[5, 5]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p2"], **pool),
        *flat,
        helper.make_node("Gemm", ["f", "onnx::fc1", "fc1.bias"], ["g1"], transB=1),
        helper.make_node("Relu", ["g1"], ["r3"]),
        helper.make_node("Gemm", ["r3", "fc2.weight", "fc2.bias"], ["g2"], transB=1),
        helper.make_node("Relu", ["g2"], ["r4"]),
        helper.make_node("Gemm", ["r4", "fc3.weight", "fc3.bias"], ["g3"], transB=1),
        helper.make_node("Softmax", ["g3"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "lenet",
        [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, [batch, 1, 28, 28])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()] + ints)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.checker.check_model(model, full_check=True)
    return model, weights


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-import-")
        self.addCleanup(self.folder.cleanup)
        self.model, self.weights = lenet(np.random.default_rng(3))
        onnx.save(self.model, self.path("lenet.onnx"))

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def run_program(self, program, *args, code=0):
        done = subprocess.run([os.path.join(script.BIN, program), *args],
                              cwd=self.folder.name, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, said)
        return said

    def import_model(self, *args):
        said = self.run_program("tandem", "import", "lenet.onnx", "mine", *args)
        with open(self.path("mine", "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB)
        return said

    def losses(self, said):
        return [float(loss) for loss in re.findall(r"^step=.* loss=(\d+\.\d+)", said, re.MULTILINE)]

    def test_it_has_the_weights(self):
        said = self.import_model()
        self.assertIn("the last node, Softmax, is omitted, because the loss contains it", said)
        self.assertIn('data "img": f32[batch,1,28,28]', said)
        arrays = safetensors_io.read(self.path("mine", "model.safetensors"))
        self.assertEqual(len(arrays), len(self.weights))
        for name, array in self.weights.items():
            got = arrays[name.replace(":", "_")]
            want = array.T if array.ndim == 2 else array
            np.testing.assert_array_equal(got, want, err_msg=name)

    def test_it_trains_from_its_weights(self):
        self.import_model()
        job = self.path("mine", "job.pbtxt")
        self.run_program("tandem", "lint", job)
        said = self.run_program("tandem-trainer", f"--job_file={job}")
        self.assertIn("parameters: 10 of 10 tensors", said)
        losses = self.losses(said)
        self.assertGreater(len(losses), 20, said)
        self.assertLess(losses[-1], 0.7 * losses[0], said)
        # The first loss must be that of the model's own weights.
        other = self.run_program("tandem-trainer", f"--job_file={job}", "--model.parameters=",
                                 "--steps_max=1")
        self.assertNotIn("parameters: 10", other)
        self.assertNotEqual(self.losses(other)[0], losses[0])

    def test_views_are_understood(self):
        first = set()
        for way in ("flatten", "view of one", "view of any"):
            onnx.save(lenet(np.random.default_rng(3), way)[0], self.path("lenet.onnx"))
            self.import_model()
            said = self.run_program("tandem-trainer", f"--job_file={self.path('mine', 'job.pbtxt')}",
                                    "--steps_max=1")
            first.add(self.losses(said)[0])
        self.assertEqual(len(first), 1, first)

    def test_all_modes_begin_with_the_weights(self):
        self.import_model()
        job = self.path("mine", "job.pbtxt")
        hashes = {}
        for mode, flags in {"local": [], "pserver": ["--servers=2", "--workers=2"],
                            "collective": ["--nproc=2"]}.items():
            result = self.path(f"{mode}.json")
            said = self.run_program("tandemrun", f"--mode={mode}", f"--log_dir={self.path(mode)}",
                                    *flags, job, "--", "--steps_max=3", "--deterministic=true",
                                    f"--result_json={result}")
            self.assertIn("parameters: 10 of 10 tensors", said)
            with open(result, encoding="utf-8") as file:
                hashes[mode] = json.load(file)["params_sha256"]
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_out_again(self):
        self.import_model()
        job = self.path("mine", "job.pbtxt")
        self.run_program("tandem-trainer", f"--job_file={job}", "--steps_max=1",
                         "--optimizer.learning_rate=1e-30", "--checkpoint.dir=" + self.path("mine", "kept"))
        said = self.run_program("tandem", "export", self.path("mine", "kept"), "again.onnx",
                                f"--job={job}")
        self.assertIn("img -> g3", said)
        again = onnx.load(self.path("again.onnx"))
        onnx.checker.check_model(again, full_check=True)
        images = np.random.default_rng(1).standard_normal((4, 1, 28, 28)).astype(np.float32)
        logits = numpy_engine.run(again, {"img": images})["g3"]
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        # numpy_engine requires attributes that opset 12 makes optional
        for node in self.model.graph.node:
            if node.op_type == "Conv":
                given = {a.name for a in node.attribute}
                for name, value in {"pads": [0] * 4, "strides": [1, 1], "dilations": [1, 1],
                                    "group": 1}.items():
                    if name not in given:
                        node.attribute.append(helper.make_attribute(name, value))
            elif node.op_type == "MaxPool":
                node.attribute.append(helper.make_attribute("pads", [0] * 4))
            elif node.op_type == "Flatten":
                node.op_type = "Reshape"
                node.input.append("flat")
                self.model.graph.initializer.append(
                    numpy_helper.from_array(np.array([0, 400]), "flat"))
        want = numpy_engine.run(self.model, {"input.1": images})["probabilities"]
        np.testing.assert_allclose(probabilities, want, atol=1e-5)

    def test_a_full_disk_leaves_what_was_there(self):
        self.import_model()
        before = {}
        for name in ("model.pbtxt", "model.safetensors"):
            with open(self.path("mine", name), "rb") as file:
                before[name] = file.read()
        os.symlink("/dev/full", self.path("mine", "model.pbtxt.new"))
        self.assertIn("free space on the disk", self.run_program("tandem", "import", "lenet.onnx", "mine",
                                                    "--loss=none", code=74))
        for name, content in before.items():
            with open(self.path("mine", name), "rb") as file:
                self.assertEqual(file.read(), content, name)
        self.assertEqual(sorted(os.listdir(self.path("mine"))),
                         ["job.pbtxt", "model.pbtxt", "model.safetensors"])
        with open(self.path("file"), "w", encoding="utf-8"):
            pass
        self.assertIn("cannot be created", self.run_program(
            "tandem", "import", "lenet.onnx", self.path("file", "folder"), code=2))

    def test_what_is_refused(self):
        self.model.graph.node[1].op_type = "Einsum"
        onnx.save(self.model, self.path("einsum.onnx"))
        said = self.run_program("tandem", "import", "einsum.onnx", "x", code=2)
        self.assertIn('einsum.onnx: node 1, Einsum "": operator Einsum is not supported', said)
        self.assertFalse(os.path.exists(self.path("x", "model.pbtxt")))
        with open(self.path("lenet.onnx"), "rb") as file:
            content = file.read()
        with open(self.path("cut.onnx"), "wb") as file:
            file.write(content[:len(content) // 2])
        self.assertIn("damaged", self.run_program("tandem", "import", "cut.onnx", "x", code=65))
        self.assertIn("did you mean", self.run_program("tandem", "import", "lenet.onnx", "x",
                                                       "--loss=sofmax", code=2))
        self.assertIn("(outputs: probabilities)", self.run_program(
            "tandem", "import", "lenet.onnx", "x", "--loss_of=nothing", code=2))
        self.run_program("tandem", "import", "nowhere.onnx", "x", code=2)


if __name__ == "__main__":
    script.main()
