"""The merged timeline of a job, read as any viewer of Chrome's trace event format reads it: arrows begin
in a push, go through an update of the pserver that it was sent to, and end in the answer with the
parameters; clocks that differ are put right."""

import collections
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import script

STEPS = 6
JOB = """
name: "drawn"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 320 test_samples: 16 }
}
optimizer { type: "momentum" learning_rate: 0.02 }
global_batch_size: 32
eval_every_epochs: 0
steps_max: 10
profile { dir: "prof" first_step: 2 steps: %d }
""" % STEPS


def run(program, *args, cwd, code=0):
    done = subprocess.run([os.path.join(script.BIN, program), *args], cwd=cwd,
                          capture_output=True, text=True, check=False)
    if done.returncode != code:
        raise AssertionError(f"{program} {args}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


class Trace:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.events = json.load(file)["traceEvents"]
        self.slices = collections.defaultdict(list)  # by process and thread
        self.arrows = collections.defaultdict(dict)  # by id and phase
        for event in self.events:
            if event["ph"] == "X":
                self.slices[event["pid"], event["tid"]].append(event)
            elif event["ph"] in "stf":
                assert event["ph"] not in self.arrows[event["id"]], event
                self.arrows[event["id"]][event["ph"]] = event

    def slice_at(self, event):
        """The one that a point of an arrow is in."""
        found = [s for s in self.slices[event["pid"], event["tid"]]
                 if s["ts"] - 1e-3 <= event["ts"] <= s["ts"] + s["dur"] + 1e-3]
        assert len(found) == 1, (event, found)
        return found[0]

    def updates(self):
        return [s for track in self.slices.values() for s in track if s["name"] == "update"]


class Timeline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-timeline-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.job = os.path.join(cls.folder.name, "job.pbtxt")
        with open(cls.job, "w", encoding="utf-8") as file:
            file.write(JOB)
        run("tandemrun", "--servers=2", "--workers=2", "job.pbtxt", "--",
            "--enable_rpc_profiler=true", cwd=cls.folder.name)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def check_arrows(self, trace, least, slack=2):
        """Arrows by push, server and version. `slack`: microseconds that clocks may be apart."""
        self.assertGreaterEqual(len(trace.arrows), least)
        ways = collections.Counter()
        for identity, points in trace.arrows.items():
            self.assertEqual(sorted(points), ["f", "s", "t"], identity)
            push, update, pull = (trace.slice_at(points[phase]) for phase in "stf")
            self.assertEqual(push["name"], "Push")
            self.assertEqual(update["name"], "update")
            self.assertEqual(push["pid"], pull["pid"])
            self.assertEqual(push["args"]["server"], update["args"]["server"])
            self.assertEqual(pull["args"]["server"], update["args"]["server"])
            self.assertGreaterEqual(pull["args"]["version"], update["args"]["version"])
            self.assertLessEqual(points["s"]["ts"], points["t"]["ts"] + slack)
            self.assertLessEqual(points["t"]["ts"], points["f"]["ts"] + slack)
            ways[push["pid"], push["args"]["server"], update["args"]["version"]] += 1
        return ways

    def test_arrows_lead_from_push_to_update_to_pull(self):
        said = run("tandem", "profile", "prof", cwd=self.folder.name)
        self.assertIn("2 trainers", said)
        self.assertIn("by the clock of their host", said)
        trace = Trace(self.path("prof", "timeline.json"))
        ways = self.check_arrows(trace, 2 * 2 * (STEPS - 1))
        for rank in (0, 1):
            for server in (0, 1):
                self.assertGreaterEqual(len([w for w in ways if w[:2] == (rank, server)]), STEPS - 1)
        # Updates for which both trainers waited appear once, and both trainers have arrows to them.
        versions = [(u["pid"], u["args"]["version"]) for u in trace.updates()]
        self.assertEqual(len(versions), len(set(versions)))
        shared = {w[1:] for w in ways if w[0] == 0} & {w[1:] for w in ways if w[0] == 1}
        self.assertGreaterEqual(len(shared), 2 * (STEPS - 2))
        # Kernels of both ranks are there too, and each thread has one slice at a time.
        for rank in (0, 1):
            self.assertTrue(any(s["name"] == "conv2d" for s in trace.slices[rank, 0]))
        for (pid, _), track in trace.slices.items():
            end = 0
            for s in sorted(track, key=lambda s: s["ts"]):
                self.assertGreaterEqual(s["ts"], end - 0.01, (pid, s))
                end = s["ts"] + s["dur"]

    def uncertainty(self):
        """Microseconds: what the trainers do not know of the pservers' clocks, all together."""
        unknown = 2
        for rank in (0, 1):
            with open(self.path("prof", f"timeline.{rank}.json"), encoding="utf-8") as file:
                clocks = json.load(file)["otherData"]["pserver_clocks"]
            unknown += sum(most - least for least, most in clocks.values())
        return unknown

    def shifted(self, name, seconds, servers=True):
        """The profile as if rank 1 ran on another host, whose clock is so many seconds ahead."""
        shutil.copytree(self.path("prof"), self.path(name))
        with open(self.path(name, "timeline.1.json"), encoding="utf-8") as file:
            trace = json.load(file)
        head = trace["otherData"]
        head["boot"] = "another"
        head["first_us"] += seconds * 1e6
        head["first_unix_us"] += seconds * 1e6
        ahead = {server: [bound + seconds * 1e6 for bound in bounds]
                 for server, bounds in head["pserver_clocks"].items()}
        head["pserver_clocks"] = ahead if servers else {}
        with open(self.path(name, "timeline.1.json"), "w", encoding="utf-8") as file:
            json.dump(trace, file)
        said = run("tandem", "profile", name, name + ".json", cwd=self.folder.name)
        return said, Trace(self.path(name + ".json"))

    def test_clocks_are_put_right_by_the_servers(self):
        run("tandem", "profile", "prof", "plain.json", cwd=self.folder.name)
        plain = Trace(self.path("plain.json"))
        said, trace = self.shifted("ahead", 17.0)
        self.assertIn("by the pservers' clocks", said)
        unknown = self.uncertainty()
        self.assertLess(unknown, 17e6 / 2, "the shift is more than that")
        self.assertEqual(len(self.check_arrows(trace, 20, slack=unknown)),
                         len(self.check_arrows(plain, 20)))
        for rank in (0, 1):
            want = [s["ts"] for s in plain.slices[rank, 0]]
            got = [s["ts"] for s in trace.slices[rank, 0]]
            self.assertEqual(len(want), len(got))
            self.assertLess(max(abs(x - y) for x, y in zip(want, got)), unknown)

    def test_without_them_by_wall_clock(self):
        said, trace = self.shifted("wall", 17.0, servers=False)
        self.assertIn("by the wall clocks", said)
        first = {rank: min(s["ts"] for s in trace.slices[rank, 0]) for rank in (0, 1)}
        self.assertAlmostEqual(first[1] - first[0], 17e6, delta=2e6)

    def test_what_is_refused(self):
        run("tandem", "profile", "nowhere", cwd=self.folder.name, code=2)
        os.makedirs(self.path("empty"), exist_ok=True)
        self.assertIn("--profile.dir", run("tandem", "profile", "empty", cwd=self.folder.name, code=2))
        os.makedirs(self.path("broken"), exist_ok=True)
        with open(self.path("prof", "timeline.0.json"), encoding="utf-8") as file:
            content = file.read()
        head = json.dumps(json.loads(content)["otherData"])
        odd = '{"ph": "t", "pid": 1, "ts": 1, "args": {"version": "x"}}'
        for cut in (content[:len(content) // 2], "[]", '{"traceEvents": []}',
                    '{"traceEvents": [{}], "otherData": {"rank": 0}}',
                    f'{{"traceEvents": [{odd}], "otherData": {head}}}'):
            with open(self.path("broken", "timeline.0.json"), "w", encoding="utf-8") as file:
                file.write(cut)
            run("tandem", "profile", "broken", cwd=self.folder.name, code=65)


if __name__ == "__main__":
    script.main()
