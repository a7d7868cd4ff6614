"""Predictions of an ONNX model by onnxruntime in this process, as predict_deepfm makes them.

usage: peer_onnx.py MODEL.onnx THREADS SECONDS. Each thread runs one request after another; a session
computes with one thread, so that THREADS processors are busy. Prints JSON: requests per second and
latencies by samples of a request."""

import json
import sys
import threading
import time

import numpy
import onnxruntime

FIELDS, IDS, REQUESTS = 26, 1000000, 256


def measure(session, name, samples, threads, seconds):
    random = numpy.random.default_rng(7)
    requests = random.integers(0, IDS, (REQUESTS, samples, FIELDS))
    took = [[] for _ in range(threads)]
    start = threading.Barrier(threads)

    def call(mine, at):
        for i in range(50):
            session.run(None, {name: requests[(i + at) % REQUESTS]})
        start.wait()
        end = time.perf_counter() + seconds
        begin = time.perf_counter()
        while begin < end:
            session.run(None, {name: requests[at % REQUESTS]})
            now = time.perf_counter()
            mine.append(now - begin)
            begin, at = now, at + 1

    callers = [threading.Thread(target=call, args=(mine, 17 * i)) for i, mine in enumerate(took)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    every = sorted(sum(took, []))
    return {f"{samples}_requests_per_s": len(every) / seconds,
            f"{samples}_p50_us": 1e6 * every[len(every) // 2],
            f"{samples}_p99_us": 1e6 * every[len(every) * 99 // 100]}


def main():
    model, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    out = {"version": onnxruntime.__version__}
    for samples in (1, 16, 64):
        out.update(measure(session, session.get_inputs()[0].name, samples, threads, seconds))
    print(json.dumps(out))


main()
