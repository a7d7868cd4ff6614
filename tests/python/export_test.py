"""What `tandem export` writes, read by NumPy itself and by a reader of safetensors of ten lines."""

import json
import os
import struct
import subprocess
import tempfile
import unittest

import script

script.need_modules("numpy", package="python3-numpy")
import numpy  # pylint: disable=wrong-import-position

JOB = """
name: "exported"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "momentum" learning_rate: 0.02 }
global_batch_size: 16
eval_every_epochs: 0
steps_max: 3
checkpoint { dir: "checkpoints" }
"""


def run(program, *args, cwd, code=0):
    done = subprocess.run([os.path.join(script.BIN, program), *args], cwd=cwd,
                          capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"{program} {args}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8:8 + size]), content[8 + size:]
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind = {"F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1"}[entry["dtype"]]
        tensors[name] = numpy.frombuffer(data[begin:end], kind).reshape(entry["shape"])
    return tensors, metadata


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-export-")
        with open(os.path.join(cls.folder.name, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB)
        run("tandem-trainer", "--job_file=job.pbtxt", cwd=cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def export(self, name, *args):
        said = run("tandem", "export", "checkpoints", name, *args, cwd=self.folder.name)
        self.assertIn(name, said)
        return os.path.join(self.folder.name, name)

    def test_both_formats_hold_the_same(self):
        tensors, metadata = read_safetensors(self.export("model.safetensors"))
        self.assertEqual(metadata, {"job": "exported", "step": "3"})
        with numpy.load(self.export("model.npz"), allow_pickle=False) as arrays:
            self.assertEqual(sorted(arrays.files), sorted(tensors))
            self.assertEqual(sum(a.size for a in tensors.values()), 61706)  # LeNet-5
            for name, want in tensors.items():
                self.assertEqual(arrays[name].dtype, want.dtype)
                self.assertEqual(arrays[name].shape, want.shape)
                numpy.testing.assert_array_equal(arrays[name], want, err_msg=name)

    def test_state_and_all(self):
        with numpy.load(self.export("model.npz")) as model, \
                numpy.load(self.export("state.npz", "--what=state")) as state, \
                numpy.load(self.export("all.npz", "--what=all")) as everything:
            self.assertTrue(any("velocity" in name for name in state.files), state.files)
            self.assertEqual(sorted(everything.files), sorted(model.files + state.files))

    def test_the_same_bytes_again(self):
        with open(self.export("a.npz"), "rb") as a, open(self.export("b.npz"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_what_is_refused(self):
        folder = self.folder.name
        self.assertIn("ends with .npz", run("tandem", "export", "checkpoints", "x.txt", cwd=folder,
                                            code=2))
        self.assertIn("hint: set --job", run("tandem", "export", "checkpoints", "x.onnx",
                                             cwd=folder, code=2))
        run("tandem", "export", "nowhere", "x.npz", cwd=folder, code=2)
        self.assertIn("did you mean", run("tandem", "export", "checkpoints", "x.npz", "--what=modle",
                                          cwd=folder, code=2))
        run("tandem", "export", "checkpoints", "no/such/folder/x.npz", cwd=folder, code=2)
        self.assertFalse([name for name in os.listdir(folder) if name.endswith(".new")])


if __name__ == "__main__":
    script.main()
