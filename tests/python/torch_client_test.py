"""deploy/examples/torch_client.py as its comment says: two trainers, two servers over TLS, of which one is
killed and started again at its address."""

import os
import re
import subprocess
import sys
import time

import script

script.need_modules("grpc", "numpy", "torch", package="python3-grpcio, python3-torch")
# pylint: disable=wrong-import-position
from pserver_case import Test, connect
from pserver_process import Servers

STEPS, KILLED_AT = 1500, 50


class TorchClient(Test):
    def certificates(self):
        folder = Servers(script.BUILD, 0).__enter__().folder
        self.addCleanup(folder.cleanup)
        for command in (["init", "pki"], ["issue", "pki", "--job=curve", "--role=pserver"],
                        ["issue", "pki", "--job=curve", "--role=trainer"]):
            subprocess.run([os.path.join(script.BIN, "tandem"), "certs", *command], check=True,
                           cwd=folder.name, capture_output=True)
        return os.path.join(folder.name, "pki", "curve")

    def start(self, trainer, servers, tls):
        environment = dict(os.environ, PYTHONPATH=os.path.join(script.BUILD, "python"))
        environment.pop("OMP_WAIT_POLICY", None)
        command = [sys.executable, "-B", os.path.join(script.SOURCE, "deploy/examples/torch_client.py"),
                   f"--trainer={trainer}", "--trainers=2", f"--tls={tls}", f"--steps={STEPS}",
                   *servers.addresses]
        running = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (running.kill(), running.communicate()))
        return running

    def test_two_trainers_and_a_killed_server(self):
        certificates = self.certificates()
        servers = self.servers(2, f"--tls_dir={certificates}/pserver", "--durability=logged",
                               trainers=2, job="curve")
        tls = os.path.join(certificates, "trainer")
        trainers = [self.start(i, servers, tls) for i in range(2)]
        with connect(servers, job="curve", tls=tls) as watching:
            deadline = time.monotonic() + 120
            while (version := watching.status()[1].version) < KILLED_AT:
                self.assertLess(time.monotonic(), deadline, "the trainers do not train")
                time.sleep(0.01)
        servers.kill(1)
        self.assertLess(version, STEPS)
        servers.start(1)
        said = [running.communicate(timeout=180)[0] for running in trainers]
        for trainer, text in enumerate(said):
            self.assertEqual(trainers[trainer].returncode, 0, text)
            found = re.fullmatch(rf"trainer {trainer}: loss (\S+) after {STEPS} steps\n", text)
            self.assertTrue(found, text)  # no warning
            self.assertLess(float(found.group(1)), 0.02)


if __name__ == "__main__":
    script.main()
