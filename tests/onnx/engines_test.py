"""Exported models (export_cases.cc) in other hands: python3-onnx checks them, and they give this
engine's numbers in OpenCV's dnn, in onnxruntime where it is installed, and by numpy (numpy_engine)."""

import os
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
import numpy_engine
import safetensors_io
try:
    import cv2
except ImportError:
    cv2 = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

RELATIVE = 1e-4  # relative to the largest element
# OpenCV 4.6 cannot read other cases: ids as data, erf, and tensors of ranks that its layers do not
# support.
IN_OPENCV = ["lenet", "mlp", "resnet18", "mobilenet_v1", "residual_cnn"]


def by_opencv(model, inputs):
    net = cv2.dnn.readNetFromONNX(model.SerializeToString())
    for name, array in inputs.items():
        net.setInput(array, name)
    names = [output.name for output in model.graph.output]
    return dict(zip(names, net.forward(names)))


def by_onnxruntime(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    return dict(zip(names, session.run(names, inputs)))


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-onnx-")
        folder = cls.folder.name
        subprocess.run([os.path.join(script.BUILD, "tests", "onnx_export_cases"), folder],
                       check=True)
        cls.cases = {}
        for file in sorted(os.listdir(folder)):
            name, ending = os.path.splitext(file)
            if ending != ".onnx":
                continue
            arrays = safetensors_io.read(os.path.join(folder, name + ".safetensors"))
            cls.cases[name] = (onnx.load(os.path.join(folder, file)),
                               {k[3:]: v for k, v in arrays.items() if k.startswith("in.")},
                               {k[4:]: v for k, v in arrays.items() if k.startswith("out.")})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compare(self, engine, names):
        for name in names:
            model, inputs, want = self.cases[name]
            with self.subTest(case=name):
                got = engine(model, inputs)
                self.assertTrue(want)
                self.assertEqual(sorted(got), sorted(want))
                for output, array in want.items():
                    self.assertEqual(got[output].shape, array.shape, output)
                    difference = np.abs(got[output].astype(np.float64) - array).max()
                    self.assertLess(difference, RELATIVE * max(1.0, np.abs(array).max()), output)

    def test_the_checker_accepts_all(self):
        self.assertGreaterEqual(len(self.cases), 14)
        for name, (model, inputs, _) in self.cases.items():
            with self.subTest(case=name):
                onnx.checker.check_model(model, full_check=True)
                self.assertEqual([i.name for i in model.graph.input], list(inputs))
                self.assertEqual({p.key: p.value for p in model.metadata_props}, {"case": name})
                for value in model.graph.input:
                    self.assertEqual(value.type.tensor_type.shape.dim[0].dim_param, "batch")

    def test_numpy_gives_the_same(self):
        self.compare(numpy_engine.run, self.cases)

    @unittest.skipIf(cv2 is None, "python3-opencv is not installed")
    def test_opencv_gives_the_same(self):
        self.compare(by_opencv, IN_OPENCV)

    @unittest.skipIf(onnxruntime is None, "onnxruntime is not installed")
    def test_onnxruntime_gives_the_same(self):
        self.compare(by_onnxruntime, self.cases)


if __name__ == "__main__":
    script.main()
