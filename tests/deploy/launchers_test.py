"""Jobs under launchers that are not ours: mpirun for real, srun by a stand-in that sets Slurm's
variables. Ranks are found, and the parameters are those of tandemrun, bit for bit."""

import json
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

import script
from ports import free_ports

EXAMPLES = os.path.join(script.SOURCE, "deploy", "examples")

JOB = """
name: "launched"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 4000 test_samples: 100 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 64
threads: 1
steps_max: 10
"""

# Starts --ntasks processes as srun does, and ends with the first non-zero exit code. Writes its
# arguments to a file.
SRUN = """#!/bin/bash
echo "$*" >srun.arguments
while [[ $1 == --* ]]; do shift; done
pids=()
for ((i = 0; i < SLURM_NTASKS; ++i)); do
  SLURM_STEP_ID=0 SLURM_PROCID=$i SLURM_LOCALID=$i "$@" &
  pids+=($!)
done
code=0
for pid in "${pids[@]}"; do wait "$pid" || code=$?; done
exit $code
"""
SCONTROL = """#!/bin/bash
[[ $1 == show && $2 == hostnames && $3 == "node[1-2]" ]] || exit 1
printf '127.0.0.1\\n127.0.0.2\\n'
"""


class Launchers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-launchers-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("job.pbtxt", JOB)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run_job(self, command, name, **environment):
        result = os.path.join(self.folder, name + ".json")
        done = subprocess.run([*command, "--result_json=" + result], cwd=self.folder,
                              capture_output=True, text=True, timeout=300, check=False,
                              env=dict(os.environ, OMP_NUM_THREADS="1", **environment))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(result, encoding="utf-8") as file:
            return json.load(file)["params_sha256"]

    def tandemrun(self, ranks):
        return self.run_job([os.path.join(script.BIN, "tandemrun"), "--mode=collective",
                             f"--nproc={ranks}", "job.pbtxt", "--"], "tandemrun")

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun (Debian's package openmpi-bin)")
        # Four ranks, for any number of cores and as any user.
        command = ["mpirun", "-np", "4", "--oversubscribe", "--allow-run-as-root",
                   os.path.join(script.BIN, "tandem-trainer"), "--job_file=job.pbtxt",
                   "--mode=collective", f"--rendezvous=127.0.0.1:{free_ports(1)}"]
        secret = self.write("secret", "a secret of four ranks\n", 0o600)
        sha = self.run_job(command, "mpirun", TANDEM_SECRET_FILE=secret)
        self.assertEqual(sha, self.tandemrun(4))
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                              timeout=300, check=False)
        self.assertIn("TANDEM_SECRET_FILE is not set", done.stderr)

    def test_slurm(self):
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            self.write(name, text, stat.S_IRWXU)
        for program in ("tandem", "tandem-trainer"):
            os.symlink(os.path.join(script.BIN, program), os.path.join(self.folder, program))
        sha = self.run_job(["bash", os.path.join(EXAMPLES, "slurm.sbatch"), "job.pbtxt"], "slurm",
                           PATH=self.folder + ":" + os.environ["PATH"],
                           SLURM_JOB_ID=str(free_ports(1) - 10000),
                           SLURM_NTASKS="2", SLURM_CPUS_PER_TASK="1",
                           SLURM_JOB_NODELIST="node[1-2]")
        self.assertEqual(sha, self.tandemrun(2))
        with open(os.path.join(self.folder, "srun.arguments"), encoding="utf-8") as file:
            arguments = file.read()
        self.assertIn(".pki/launched/trainer", arguments)
        self.assertNotIn("--insecure_allow_network", arguments)
        left = [name for name in os.listdir(self.folder) if name.endswith((".secret", ".pki"))]
        self.assertEqual(left, [], "secret and certificates go with the job")


if __name__ == "__main__":
    script.main()
