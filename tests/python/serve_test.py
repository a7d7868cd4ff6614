"""`tandem serve` answers clients of the Open Inference Protocol with the model of a job.

The clients use the messages that protoc generates from proto/inference.proto, as clients in other
languages do.
"""

import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import script

script.need_modules("grpc", "numpy", "google.protobuf", package="python3-grpcio, python3-protobuf")
script.need_programs("protoc", package="protobuf-compiler")
# pylint: disable=wrong-import-position
import grpc
import numpy

MESSAGES = tempfile.TemporaryDirectory(prefix="tandem-serve-")
subprocess.run(["protoc", f"--python_out={MESSAGES.name}", "-I", script.SOURCE,
                "proto/inference.proto"], check=True)
sys.path.insert(0, MESSAGES.name)
from proto import inference_pb2 as inference

IDS, RECORDS, SLOW = 50, 400, 120.0
SECRET = "0123456789abcdef"
JOB = """
name: "click"
model {
  zoo: "deepfm"
  arg { name: "fields" value: "3" }
  arg { name: "rows" value: "50" }
  arg { name: "dim" value: "4" }
  arg { name: "hidden" value: "16" }
  arg { name: "values" value: "1" }
  arg { name: "sparse" value: "1" }
  arg { name: "distributed" value: "1" }
}
data {
  format: "libsvm"
  dir: "."
  libsvm { train_file: "records" test_file: "records" ids: 50 features_max: 3 }
}
optimizer { type: "adam" learning_rate: 0.01 }
global_batch_size: 40
epochs: EPOCHS
checkpoint { dir: "checkpoints" every_steps: 10 }
"""


class Service:
    """`tandem serve` as a process."""

    def __init__(self, folder, *flags):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.path.join(script.BIN, "tandem"), "serve", "job.pbtxt", "--listen=127.0.0.1:0",
             *flags], cwd=folder, stdout=self.log, stderr=self.log)
        found = self.said(r"^serving model click at (\S+), version (\S+)")
        self.address, self.version = found.groups()
        self.channel = grpc.insecure_channel(self.address)

    def said(self, pattern):
        until = time.monotonic() + SLOW
        while time.monotonic() < until:
            self.log.seek(0)
            text = self.log.read()
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {pattern} in:\n{text}")

    def call(self, method, request, reply, token=None):
        call = self.channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString)
        metadata = [("authorization", f"Bearer {token}")] if token else None
        return call(request, timeout=SLOW, metadata=metadata)

    def infer(self, ids, values, version="", name="click", token=None):
        request = inference.ModelInferRequest(model_name=name, model_version=version, id="7")
        for field, array, kind in (("ids", ids, "INT64"), ("values", values, "FP32")):
            tensor = request.inputs.add(name=field, datatype=kind)
            tensor.shape.extend(array.shape)
            request.raw_input_contents.append(array.tobytes())
        return self.call("ModelInfer", request, inference.ModelInferResponse, token)

    def scores(self, ids, values, version=""):
        """The logits [n] and the version of the values."""
        reply = self.infer(ids, values, version)
        assert reply.id == "7" and reply.model_name == "click"
        logits = numpy.frombuffer(reply.raw_output_contents[0], numpy.float32)
        assert list(reply.outputs[0].shape) == [len(ids), 1]
        return logits, reply.parameters["values"].string_param

    def stop(self):
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SLOW)
        self.log.close()
        return code


def records():
    """The ids [n, 3], values [n, 3] and labels [n] of the test's records."""
    random = numpy.random.default_rng(3)
    ids = numpy.sort(random.permuted(numpy.tile(numpy.arange(IDS), (RECORDS, 1)), axis=1)[:, :3])
    values = random.integers(1, 4, ids.shape).astype(numpy.float32)
    labels = (ids.sum(1) % 3 == 0).astype(numpy.int64)
    return ids.astype(numpy.int64), values, labels


def loss_of(logits, labels):
    logits = logits.astype(numpy.float64)
    return float(numpy.mean(numpy.logaddexp(0, logits) - labels * logits))


class Serve(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-serve-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.ids, self.values, self.labels = records()
        with open(os.path.join(self.folder, "records"), "w", encoding="utf-8") as file:
            for ids, values, label in zip(self.ids, self.values, self.labels):
                features = " ".join(f"{i}:{v:g}" for i, v in zip(ids, values))
                file.write(f"{label} {features}\n")

    def write_job(self, epochs):
        with open(os.path.join(self.folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB.replace("EPOCHS", str(epochs)))

    def launch(self, *flags):
        return [os.path.join(script.BIN, "tandemrun"), "--servers=2", "--workers=1",
                "--log_dir=log", "--pserver_data_dir=state", *flags, "job.pbtxt"]

    def serve(self, *flags):
        service = Service(self.folder, *flags)
        self.addCleanup(service.process.kill)
        return service

    def all_scores(self, service, version=""):
        """The logits of all records, in requests of several sizes."""
        logits, at, sizes = [], 0, [1, 2, 7, 40, 64]
        while at < RECORDS:
            n = sizes[len(logits) % len(sizes)]
            part = slice(at, at + n)
            logits.append(service.scores(self.ids[part], self.values[part], version)[0])
            at += n
        return numpy.concatenate(logits)

    def test_a_checkpoint_scores_as_the_trainer_evaluates(self):
        self.write_job(3)
        done = subprocess.run(self.launch(), cwd=self.folder, capture_output=True, text=True,
                              timeout=SLOW, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = re.findall(r"eval epoch=\d+ loss=([0-9.]+)", done.stdout + done.stderr)
        self.assertTrue(losses, done.stdout + done.stderr)
        service = self.serve("--checkpoints=checkpoints", "--versions=2", "--shadow=20")
        self.assertEqual(service.version, "30")
        self.assertAlmostEqual(loss_of(self.all_scores(service), self.labels), float(losses[-1]),
                               delta=2e-4)
        self.assertAlmostEqual(loss_of(self.all_scores(service, "20"), self.labels),
                               float(losses[-2]), delta=2e-4)
        metadata = service.call("ModelMetadata", inference.ModelMetadataRequest(name="click"),
                                inference.ModelMetadataResponse)
        self.assertEqual(list(metadata.versions), ["20", "30"])
        inputs = {t.name: (t.datatype, list(t.shape)) for t in metadata.inputs}
        self.assertEqual(inputs, {"ids": ("INT64", [-1, 3]), "values": ("FP32", [-1, 3])})
        ready = service.call("ModelReady", inference.ModelReadyRequest(name="click", version="10"),
                             inference.ModelReadyResponse)
        self.assertFalse(ready.ready)
        for wrong in (dict(version="10"), dict(name="other")):
            with self.assertRaises(grpc.RpcError) as caught:
                service.infer(self.ids[:1], self.values[:1], **wrong)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            self.assertIn("[TD7033]", caught.exception.details())
        with self.assertRaises(grpc.RpcError) as caught:
            service.infer(self.ids[:1] + IDS, self.values[:1])
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(service.stop(), 0)

    def test_a_running_job_is_served_while_it_trains(self):
        self.write_job(1000000)
        job = subprocess.Popen(self.launch("--durability=logged"), cwd=self.folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        until = time.monotonic() + SLOW
        while not glob.glob(os.path.join(self.folder, "checkpoints", "step-*")):
            self.assertLess(time.monotonic(), until)
            self.assertIsNone(job.poll())
            time.sleep(0.05)
        token = os.path.join(self.folder, "token")
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(SECRET + "\n")
        service = self.serve("--log_dir=log", "--refresh_ms=20")
        self.assertEqual(service.version, "live")
        versions = set()
        while len(versions) < 5:
            self.assertLess(time.monotonic(), until)
            logits, version = service.scores(self.ids[:4], self.values[:4])
            self.assertTrue(numpy.isfinite(logits).all())
            versions.add(version)
        while loss_of(self.all_scores(service), self.labels) > 0.3:
            self.assertLess(time.monotonic(), until)
        self.assertEqual(service.stop(), 0)
        guarded = self.serve("--log_dir=log", f"--token_file={token}")
        for wrong in (None, SECRET[:-1], SECRET + "0"):
            with self.assertRaises(grpc.RpcError) as caught:
                guarded.infer(self.ids[:1], self.values[:1], token=wrong)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
            self.assertIn("[TD7034]", caught.exception.details())
        guarded.infer(self.ids[:1], self.values[:1], token=SECRET)
        self.assertEqual(guarded.stop(), 0)


if __name__ == "__main__":
    script.main()
