"""The systemd units of deploy/systemd: systemd understands them, their exposure is small, and their
commands, with the example files of /etc/tandem, train a job."""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import processes
import script
from ports import free_ports

script.need_programs("systemd-analyze", package="systemd")

SYSTEMD = os.path.join(script.SOURCE, "deploy", "systemd")
UNITS = ["tandem-pserver@.service", "tandem-trainer@.service"]
EXPOSURE_MAX = 2.0  # of 10, by systemd-analyze security

JOB = """
name: "lenet"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 4000 test_samples: 100 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 64
steps_max: 20
checkpoint { dir: "/var/lib/tandem/checkpoints" }
"""


def read(name):
    with open(os.path.join(SYSTEMD, name), encoding="utf-8") as file:
        return file.read()


def settings(text):
    """NAME=value of an environment file."""
    return dict(line.split("=", 1) for line in text.splitlines()
                if line and not line.startswith("#"))


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-units-")
        self.addCleanup(shutil.rmtree, self.folder)

    def instance(self, unit):
        """The unit with the programs of this build, as a file that systemd-analyze reads."""
        path = os.path.join(self.folder, unit.replace("@", "@0"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(read(unit).replace("/usr/bin/tandem", os.path.join(script.BIN, "tandem")))
        return path

    def test_systemd_understands_them(self):
        for unit in UNITS:
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                                   self.instance(unit)], capture_output=True, text=True,
                                  check=False)
            said = [line for line in (done.stdout + done.stderr).splitlines()
                    if not line.startswith("Failed to load")]
            self.assertEqual((done.returncode, said), (0, []), unit)

    def test_their_exposure_is_small(self):
        for unit in UNITS:
            done = subprocess.run(["systemd-analyze", "security", "--no-pager", "--offline=true",
                                   self.instance(unit)], capture_output=True, text=True,
                                  check=False)
            level = re.search(r"Overall exposure level .*: ([0-9.]+)", done.stdout)
            self.assertIsNotNone(level, done.stdout + done.stderr)
            print(f"{unit}: exposure {level.group(1)}")
            self.assertLessEqual(float(level.group(1)), EXPOSURE_MAX, done.stdout)

    def test_memory_is_limited(self):
        for unit in UNITS:
            self.assertRegex(read(unit), r"(?m)^MemoryMax=\d+%$", unit)

    def test_permanent_errors_do_not_restart(self):
        with open(os.path.join(script.SOURCE, "common", "base", "status.h"),
                  encoding="utf-8") as file:
            codes = {int(c) for c in re.findall(r"^  kExit\w+ = (\d+)", file.read(), re.M)}
        for unit in UNITS:
            prevent = re.search(r"^RestartPreventExitStatus=(.*)$", read(unit), re.M).group(1)
            self.assertEqual({int(c) for c in prevent.split()},
                             {c for c in codes if 0 < c < 128})

    def start(self, kind, index, port):
        """The unit's command as systemd makes it of the example file, in this test's folder."""
        unit = read(f"tandem-{kind}@.service")
        text = read(f"{kind}.env").replace("127.0.0.1:7000", f"127.0.0.1:{port}")
        text = text.replace("127.0.0.1:9000", f"127.0.0.1:{port + 1}")
        environment = settings(text)
        environment |= settings("\n".join(re.findall(r"^Environment=(.*)$", unit, re.M)))
        command = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
        # ${NAME} is part of a word, $NAME expands to several words.
        command = re.sub(r"\$\{(\w+)\}", lambda m: environment[m.group(1)], command)
        command = re.sub(r"\$(\w+)", lambda m: environment[m.group(1)], command)
        self.assertNotIn("$", command)

        def here(word):
            word = word.replace("%i", str(index)).replace("%S", self.folder)
            for path, ours in (("/usr/bin", script.BIN), ("/etc/tandem", self.folder)):
                word = word.replace(path, ours)
            return word
        return processes.Background([here(w) for w in shlex.split(command)], self.folder,
                                    f"{kind}-{index}.log",
                                    {name: here(value) for name, value in environment.items()})

    def test_their_commands_train(self):
        with open(os.path.join(self.folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB.replace("/var/lib/tandem", self.folder))
        secret = os.open(os.path.join(self.folder, "secret"), os.O_CREAT | os.O_WRONLY, 0o400)
        with open(secret, "w", encoding="utf-8") as file:
            file.write("a secret of a host\n")
        port = free_ports(2)
        with self.start("pserver", 0, port) as server, self.start("trainer", 0, port) as zero, \
                self.start("trainer", 1, port) as one:
            for trainer in (zero, one):
                self.assertTrue(processes.wait_until(trainer.ended, 120), trainer.output())
                self.assertEqual(trainer.process.returncode, 0,
                                 trainer.output() + server.output())
            self.assertFalse(server.ended(), server.output())
        self.assertEqual(server.process.returncode, 0, server.output())
        state = os.path.join(self.folder, "tandem", "pserver-0")
        self.assertTrue(os.path.isdir(state), "the state folder of the unit")


if __name__ == "__main__":
    script.main()
