"""The pods of deploy/kubernetes, run as the kubelet runs them (tests/deploy/pods.py): jobs
complete, probes answer, and pods that are deleted, evicted or killed come back as
docs/guides/kubernetes.md says."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import script

script.need_modules("yaml", package="python3-yaml")
script.need_programs("kubectl", package="kubernetes-client")  # its kustomize joins the manifests
script.need_programs("nsenter", "unshare", "setpriv", package="util-linux")
import yaml  # pylint: disable=wrong-import-position
import processes  # pylint: disable=wrong-import-position
import pods  # pylint: disable=wrong-import-position

KUBERNETES = os.path.join(script.SOURCE, "deploy", "kubernetes")
RESULT = "/var/lib/tandem/checkpoints/result.json"
SECONDS_MAX, STEPS = 60, 200


def manifests_of(variant, steps):
    """The manifests of a variant, with a job of `steps` steps. Rank 0 writes its result."""
    text = subprocess.run(["kubectl", "kustomize", os.path.join(KUBERNETES, variant)],
                          capture_output=True, text=True, check=True).stdout
    manifests = list(yaml.safe_load_all(text))
    for manifest in manifests:
        if manifest["kind"] == "ConfigMap":
            job = manifest["data"]["job.pbtxt"]
            for field, value in (("samples", "2000"), ("test_samples", "100"),
                                 ("global_batch_size", "16"), ("every_steps", "20"),
                                 ("epochs", f"100 steps_max: {steps} log_every_steps: 10")):
                job = re.sub(rf"\b{field}: \d+", f"{field}: {value}", job)
            manifest["data"]["job.pbtxt"] = job
        if manifest["kind"] == "Job":
            manifest["spec"]["template"]["spec"]["containers"][0]["args"].append(
                f"--result_json={RESULT}")
    return manifests


class KubernetesRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = pods.Network(8)
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-pods-")
        os.chmod(cls.folder.name, 0o755)
        cls.runs = 0
        cls.secrets = {"tandem-secret": {"secret": "a secret of a cluster"}, **cls.certificates()}

    @classmethod
    def tearDownClass(cls):
        cls.network.close()
        cls.folder.cleanup()

    @classmethod
    def certificates(cls):
        """The Secrets of the overlay tls, by the commands of the guide."""
        with open(os.path.join(script.SOURCE, "docs", "guides", "kubernetes.md"),
                  encoding="utf-8") as file:
            commands = re.findall(r"(?m)^tandem (certs .*)$", file.read())
        assert commands
        for command in commands:
            subprocess.run([os.path.join(script.BIN, "tandem"), *command.split()],
                           cwd=cls.folder.name, check=True, capture_output=True)
        secrets = {}
        for role in ("pserver", "trainer"):
            path = os.path.join(cls.folder.name, "pki", "lenet", role)
            secrets[f"tandem-tls-{role}"] = {}
            for name in os.listdir(path):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    secrets[f"tandem-tls-{role}"][name] = file.read()
        return secrets

    def cluster(self, variant, steps):
        type(self).runs += 1
        folder = os.path.join(self.folder.name, str(self.runs))
        os.mkdir(folder)
        os.chmod(folder, 0o755)
        made = pods.Cluster(self.network, manifests_of(variant, steps), folder, self.secrets)
        data = made.claim("tandem-data", 10001)  # that of the overlay hybrid
        for name, records in (("train.csv", 2000), ("test.csv", 100)):
            rows = [f"{i * i % 3 % 2},{i * 7 % 50},{i * i % 20}" for i in range(records)]
            pods.write(os.path.join(data, name), "\n".join(["click,user,item", *rows]), 0o644)
        return made

    def outputs(self, cluster):
        return "\n".join(f"--- {pod.name} ({pod.exit_code}):\n{pod.output()}"
                         for pod in cluster.running())

    def complete(self, cluster):
        """Lets the job run to its end. Returns the hash of its parameters."""
        job = cluster.jobs["tandem-trainer"]
        self.assertTrue(cluster.run_until(job.done, SECONDS_MAX), self.outputs(cluster))
        self.assertFalse(job.failed, self.outputs(cluster))
        with open(os.path.join(cluster.folder, "claims", "tandem-checkpoints", "result.json"),
                  encoding="utf-8") as file:
            return json.load(file)["params_sha256"]

    def wait_for(self, cluster, done):
        self.assertTrue(cluster.run_until(done, SECONDS_MAX), self.outputs(cluster))

    def trained_steps(self, cluster, index=0):
        """The last step in the output of a trainer; 0: none."""
        steps = re.findall(r"(?m)^step=(\d+)", self.trainer(cluster, index).output())
        return int(steps[-1]) if steps else 0

    def pserver(self, cluster, index):
        return cluster.sets["tandem-pserver"].pods[index]

    def trainer(self, cluster, index):
        return cluster.jobs["tandem-trainer"].pods[index]

    def test_jobs_complete(self):
        for variant in ("base", "overlays/cpu", "overlays/tls"):
            with self.subTest(variant), self.cluster(variant, 20) as cluster:
                pservers = cluster.sets["tandem-pserver"]
                pservers.step()
                for pod in pservers.pods.values():
                    self.assertTrue(processes.wait_until(lambda p=pod: p.probe("startupProbe"),
                                                         SECONDS_MAX), pod.output())
                    self.assertTrue(pod.probe("livenessProbe"))
                    self.assertFalse(pod.ready(), "no trainer has given it parameters")
                self.complete(cluster)
                for pod in pservers.pods.values():
                    self.assertTrue(pod.ready(), pod.output())
                    self.assertEqual(pod.starts, 1, pod.output())
                self.assert_stops(pservers.pods.values(), 0)

    def assert_stops(self, all_pods, exit_code):
        """Deletes pods. Each must end by SIGTERM, within its grace period, and leave nothing."""
        for pod in all_pods:
            pod.stop()
            self.assertFalse(pod.killed, pod.output())
            self.assertEqual(pod.exit_code, exit_code, pod.output())

    def test_a_job_without_its_device_fails_and_says_why(self):
        with self.cluster("overlays/gpu", 20) as cluster:
            job = cluster.jobs["tandem-trainer"]
            self.wait_for(cluster, lambda: job.failed)
            self.assertIn("FailJob", job.failed)
            self.assertIn("[TD", self.trainer(cluster, 0).output())

    def test_killed_pods_and_lost_pservers_change_no_bit(self):
        with self.cluster("base", STEPS) as cluster:
            undisturbed = self.complete(cluster)
        with self.cluster("base", STEPS) as cluster:
            self.wait_for(cluster, lambda: self.trained_steps(cluster) > 0)
            for pod in cluster.running():
                self.assertTrue(pod.ready(), pod.output())
            self.pserver(cluster, 0).kill()  # the kubelet starts the container again
            self.wait_for(cluster, lambda: self.pserver(cluster, 0).starts == 2)
            self.trainer(cluster, 0).kill()  # the Job makes another pod
            deleted = self.pserver(cluster, 1)
            cluster.delete(deleted)  # its successor has the volume, and another address
            self.assertEqual((deleted.exit_code, deleted.killed), (0, False), deleted.output())
            self.assertEqual(self.complete(cluster), undisturbed)
            self.assertNotEqual(self.pserver(cluster, 1).host, deleted.host)
            self.assertEqual([failure[1:] for failure in cluster.jobs["tandem-trainer"].failures],
                             [(128 + signal.SIGKILL, "Count")], self.outputs(cluster))

    def test_deleted_trainers_come_back(self):
        with self.cluster("base", STEPS) as cluster:
            self.wait_for(cluster, lambda: self.trained_steps(cluster) > 0)
            for index in (1, 0):
                pod = self.trainer(cluster, index)
                cluster.delete(pod)
                self.assertEqual((pod.exit_code, pod.killed), (200, False), pod.output())
                self.assertIn("[TD7007]", pod.output())
                self.wait_for(cluster, lambda i=index, p=pod: self.trainer(cluster, i) is not p)
            self.complete(cluster)
            self.assertEqual([failure[1:] for failure in cluster.jobs["tandem-trainer"].failures],
                             2 * [(200, "Ignore")])

    def test_ranks_continue_from_the_checkpoint(self):
        with self.cluster("collective", STEPS) as cluster:
            undisturbed = self.complete(cluster)
        with self.cluster("overlays/collective-tls", STEPS) as cluster:
            job = cluster.jobs["tandem-trainer"]
            job.order = [1]  # the name of rank 0 does not exist yet
            self.wait_for(cluster, lambda: "status page" in self.trainer(cluster, 1).output())
            self.assertFalse(self.trainer(cluster, 1).ready(), "rank 0 is missing")
            job.order = [0, 1]
            self.wait_for(cluster, lambda: self.trained_steps(cluster) >= STEPS // 4)
            for pod in cluster.running():
                self.assertTrue(pod.ready(), pod.output())
            self.trainer(cluster, 0).kill()
            self.wait_for(cluster, lambda: len(job.failures) == 2)  # a lost rank ends the other
            self.assertEqual(sorted(failure[1:] for failure in job.failures),
                             [(128 + signal.SIGKILL, "Count"), (200, "Count")])
            self.wait_for(cluster, lambda: self.trained_steps(cluster) >= STEPS // 2)
            deleted = self.trainer(cluster, 1)
            cluster.delete(deleted)
            self.assertEqual((deleted.exit_code, deleted.killed), (200, False), deleted.output())
            self.assertEqual(self.complete(cluster), undisturbed)
            self.assertIn("resumed at step", self.trainer(cluster, 1).output())

    def test_pods_of_an_elastic_job_come_and_go(self):
        with self.cluster("overlays/elastic", 100 * STEPS) as cluster:
            job = cluster.jobs["tandem-trainer"]
            self.wait_for(cluster, lambda: self.trained_steps(cluster) >= STEPS)
            leading = self.trainer(cluster, 0)
            last = self.trainer(cluster, 2)
            job.scale(2)
            self.assertEqual((last.exit_code, last.killed), (128 + signal.SIGTERM, False),
                             last.output())
            self.wait_for(cluster, lambda: "2 of 3 ranks continue" in leading.output())
            job.scale(3)
            self.wait_for(cluster, lambda: leading.output().count("joined: 3 of 3 ranks") == 1)
            self.trainer(cluster, 1).kill()
            self.wait_for(cluster, lambda: leading.output().count("joined: 3 of 3 ranks") == 2)
            self.assertEqual((self.trainer(cluster, 0), leading.ended()), (leading, False))
            leading.kill()  # the others wait for its successor
            self.wait_for(cluster, lambda: self.trainer(cluster, 0) is not leading)
            self.wait_for(cluster, lambda: "resumed at step" in self.trainer(cluster, 0).output())
            self.wait_for(cluster, lambda: self.trained_steps(cluster) > STEPS)
            for index in (1, 2):
                self.assertIn("joins the job again", self.trainer(cluster, index).output())

    def test_a_hybrid_job_continues_from_the_checkpoint_with_new_pservers(self):
        with self.cluster("overlays/hybrid", STEPS) as cluster:
            undisturbed = self.complete(cluster)
        with self.cluster("overlays/hybrid", STEPS) as cluster:
            self.wait_for(cluster, lambda: self.trained_steps(cluster) >= STEPS // 4)
            for index in (0, 1):
                self.trainer(cluster, index).kill()
            job = cluster.jobs["tandem-trainer"]
            self.wait_for(cluster, lambda: job.failed)
            self.assertIn("[TD7012]", self.outputs(cluster))
            folder = cluster.folder
        for claim in os.listdir(os.path.join(folder, "claims")):
            if claim.startswith("state-"):
                shutil.rmtree(os.path.join(folder, "claims", claim))
        manifests = manifests_of("overlays/hybrid", STEPS)
        with pods.Cluster(self.network, manifests, folder, self.secrets) as cluster:
            self.assertEqual(self.complete(cluster), undisturbed)
            self.assertIn("resumed at step", self.trainer(cluster, 1).output())


if __name__ == "__main__":
    script.main()
