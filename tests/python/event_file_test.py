"""Event files for TensorBoard, read by a reader of its own: TFRecord frames with their checksums, and
protobuf by hand. Curves are what the trainer printed, histograms what the checkpoint holds, and the
graph what tandem graph prints."""

import glob
import json
import os
import re
import struct
import subprocess
import tempfile
import unittest

import script

script.need_modules("numpy", package="python3-numpy")
import numpy  # pylint: disable=wrong-import-position

JOB = """
name: "curves"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 320 test_samples: 64 }
}
optimizer { type: "momentum" learning_rate: 0.02 schedule { kind: COSINE } }
global_batch_size: 16
epochs: 2
log_every_steps: 10
checkpoint { dir: "checkpoints" }
"""


def crc32c(data):
    """Bit by bit (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), f"byte {at}: the length is damaged"
        record = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(record)
        yield record
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """Field number -> values of a message: whole numbers, or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 == 2:
                size, at = varint(data, at)
            else:
                size = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def number(value, kind):
    return struct.unpack("<" + kind, value)[0]


def events(path):
    """(wall time, step, version, {tag: number or histogram}) of each event."""
    for record in records(path):
        event = fields(record)
        values = {}
        for summary in event.get(5, []):
            for one in map(fields, fields(summary).get(1, [])):
                tag = one[1][0].decode()
                if 2 in one:
                    values[tag] = number(one[2][0], "f")
                else:
                    histogram = fields(one[5][0])
                    values[tag] = {
                        **{name: number(histogram[i][0], "d") for i, name in
                           enumerate(("min", "max", "num", "sum", "sum_squares"), 1)},
                        **{name: numpy.frombuffer(histogram[i][0], "<f8")
                           for i, name in ((6, "limits"), (7, "counts"))}}
        version = event[3][0].decode() if 3 in event else None
        yield number(event[1][0], "d"), event.get(2, [0])[0], version, values


def graph_nodes(path):
    """{name: (operator, inputs, shapes of outputs)} of the graph of a file, of which there is one."""
    graphs = [event[4][0] for event in map(fields, records(path)) if 4 in event]
    assert len(graphs) == 1, len(graphs)
    nodes = {}
    for node in map(fields, fields(graphs[0])[1]):
        shapes = []
        for attribute in map(fields, node.get(5, [])):
            assert attribute[1][0] == b"_output_shapes"
            for shape in fields(fields(attribute[2][0])[1][0]).get(7, []):
                shapes.append([fields(dim)[1][0] for dim in fields(shape).get(2, [])])
        name = node[1][0].decode()
        assert name not in nodes, name
        nodes[name] = (node[2][0].decode(), [i.decode() for i in node.get(3, [])], shapes)
    return nodes


class EventFile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-events-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        with open(os.path.join(cls.folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB)
        cls.lines = [json.loads(line) for line in
                     cls.run_program("tandem-trainer", "--job_file=job.pbtxt",
                                     "--log_format=json", "--tensorboard_dir=run/one").splitlines()
                     if line.startswith("{")]
        cls.run_program("tandem", "export", "checkpoints", "model.npz")
        cls.paths = glob.glob(os.path.join(cls.folder, "run", "one", "*tfevents*"))
        cls.events = list(events(cls.paths[0]))

    @classmethod
    def run_program(cls, name, *args):
        done = subprocess.run([os.path.join(script.BIN, name), *args], cwd=cls.folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{name} {args}: {done.returncode}\n{done.stderr}")
        return done.stdout + done.stderr

    def curve(self, tag):
        return {step: values[tag] for _, step, _, values in self.events if tag in values}

    def test_the_file(self):
        self.assertEqual(len(self.paths), 1)
        self.assertEqual(self.events[0][1:], (0, "brain.Event:2", {}))
        times = [event[0] for event in self.events]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 1.7e9)

    def test_curves_are_what_was_printed(self):
        printed = {line["step"]: line for line in self.lines if "loss" in line and "step" in line}
        self.assertEqual(len(printed), 4)
        losses = self.curve("train/loss")
        self.assertEqual(sorted(losses), sorted(printed))
        for step, line in printed.items():
            self.assertAlmostEqual(losses[step], line["loss"], delta=1e-5)
        self.assertEqual(sorted(self.curve("train/samples_per_second")), sorted(printed))
        rates = list(self.curve("train/learning_rate").values())
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertLess(rates[-1], 0.001)
        self.assertEqual(sorted(self.curve("test/accuracy")), [20, 40])

    def test_histograms_hold_the_parameters(self):
        with numpy.load(os.path.join(self.folder, "model.npz"), allow_pickle=False) as arrays:
            for name in arrays.files:
                values = arrays[name].astype("f8")
                steps = self.curve("parameters/" + name)
                self.assertEqual(sorted(steps), [20, 40])
                histogram = steps[40]
                self.assertEqual(histogram["num"], values.size)
                self.assertEqual((histogram["min"], histogram["max"]), (values.min(), values.max()))
                self.assertAlmostEqual(histogram["sum"], values.sum(), delta=1e-9 * values.size)
                self.assertAlmostEqual(histogram["sum_squares"], (values ** 2).sum(),
                                       delta=1e-9 * values.size)
                limits, counts = histogram["limits"], histogram["counts"]
                self.assertTrue((numpy.diff(limits) > 0).all())
                self.assertEqual(limits[-1], values.max())
                edges = numpy.concatenate([[values.min()], limits])
                # A value on a bin edge may count on either side of it.
                expected, _ = numpy.histogram(values, edges)
                self.assertLessEqual(abs(counts - expected).sum(), 4, name)
                self.assertEqual(counts.sum(), values.size)

    def test_the_graph_is_the_program(self):
        nodes = graph_nodes(self.paths[0])
        for name, (_, inputs, _) in nodes.items():
            self.assertRegex(name, r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
            for one in inputs:
                source, _, output = one.partition(":")
                self.assertIn(source, nodes)
                self.assertLess(int(output or 0), len(nodes[source][2]), one)
        kinds = ("Data", "Parameter", "State")
        printed = self.run_program("tandem", "graph", "job.pbtxt")
        wanted = sorted(re.findall(r"^(\w+)\(", printed, re.M))
        self.assertEqual(sorted(op for op, _, _ in nodes.values() if op not in kinds), wanted)
        self.assertEqual(sum(op == "Parameter" for op, _, _ in nodes.values()), 10)
        self.assertEqual(nodes["fc_0/w"], ("Parameter", [], [[400, 120]]))
        self.assertIn("fc_0/w", nodes["fc_0/fc"][1])
        update = [name for name, (op, inputs, _) in nodes.items()
                  if op == "momentum" and "fc_0/w" in inputs]
        self.assertEqual(len(update), 1)
        self.assertIn("fc_0/fc_grad:1", nodes[update[0]][1])
        self.assertEqual(nodes["fc_0/fc_grad"][2][1], [400, 120])

    def test_one_rank_writes(self):
        self.run_program("tandemrun", "--mode=collective", "--nproc=2", "--log_dir=log",
                         "job.pbtxt", "--", "--tensorboard_dir=run/two", "--steps_max=5",
                         "--checkpoint.dir=")
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "run", "two"))), 1)


if __name__ == "__main__":
    script.main()
