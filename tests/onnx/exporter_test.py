"""Files of PyTorch's default exporter (exporter/README.md) become programs, and Tandem trains them to the
losses that PyTorch had on the same samples."""

import glob
import json
import os
import shutil
import tempfile
import unittest

import imported
import script

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exporter")


class Exporter(unittest.TestCase):
    def train(self, path):
        with open(path, encoding="utf-8") as file:
            want = json.load(file)
        folder = tempfile.mkdtemp(prefix="tandem-exporter-")
        self.addCleanup(shutil.rmtree, folder)
        imported.import_model(script.BIN, path.replace(".json", ".onnx"), folder, want["inputs"])
        samples = imported.draw(want["fields"], 4 * want["batch"])
        dims = {name: shape for name, (shape, _) in want["fields"].items()}
        return imported.train(script.BIN, folder, samples, dims, want["batch"]), want["losses"]

    def test_losses_are_those_of_pytorch(self):
        paths = sorted(glob.glob(os.path.join(FILES, "*.json")))
        self.assertGreaterEqual(len(paths), 6)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                ours, theirs = self.train(path)
                self.assertEqual(len(ours), len(theirs))
                self.assertGreater(abs(theirs[16] - theirs[0]), 0.01 * theirs[0],
                                   "16 steps change the loss of a batch")
                for step, (got, expected) in enumerate(zip(ours, theirs)):
                    self.assertLess(abs(got - expected), imported.LOSS_MAX * expected,
                                    f"step {step + 1}: loss {got}, PyTorch has {expected}")


if __name__ == "__main__":
    script.main()
