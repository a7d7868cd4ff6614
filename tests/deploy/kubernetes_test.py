"""The manifests of deploy/kubernetes, as kubectl puts them together: programs accept what they say,
ports and names agree, nobody has more rights than needed, and the containers of the base and of the
overlay tls, run here as processes, train a job to its end."""

import os
import re
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import processes
import script
from ports import free_ports

script.need_modules("yaml", package="python3-yaml")
script.need_programs("kubectl", package="kubernetes-client")  # its kustomize joins the manifests
import yaml  # pylint: disable=wrong-import-position

KUBERNETES = os.path.join(script.SOURCE, "deploy", "kubernetes")
VARIANTS = ["base", "collective", "overlays/collective-tls", "overlays/cpu", "overlays/elastic",
            "overlays/gpu", "overlays/hybrid", "overlays/tls"]
# Volumes that the users of the cluster create by hand (docs/guides/kubernetes.md).
BY_HAND = {"tandem-secret", "tandem-tls-pserver", "tandem-tls-trainer"}


class Manifests:
    def __init__(self, variant):
        text = subprocess.run(["kubectl", "kustomize", os.path.join(KUBERNETES, variant)],
                              capture_output=True, text=True, check=True).stdout
        self.all = list(yaml.safe_load_all(text))
        self.trainers = self.one("Job")
        sets = [m for m in self.all if m["kind"] == "StatefulSet"]
        self.pservers = sets[0] if sets else None  # None: mode collective
        self.workloads = [*sets, self.trainers]
        self.services = {m["metadata"]["name"]: m for m in self.all if m["kind"] == "Service"}

    def one(self, kind):
        found = [m for m in self.all if m["kind"] == kind]
        assert len(found) == 1, (kind, len(found))
        return found[0]

    def pod(self, workload):
        return workload["spec"]["template"]["spec"]

    def container(self, workload):
        containers = self.pod(workload)["containers"]
        assert len(containers) == 1
        return containers[0]

    def rendezvous_port(self):
        """The port of the rendezvous; None: the mode has none."""
        ports = {p["name"]: p["containerPort"] for p in self.container(self.trainers)["ports"]}
        return ports.get("rendezvous")

    def elastic(self):
        """Whether the pods run tandemrun, so that ranks may come and go."""
        return self.container(self.trainers)["command"] == ["tandemrun"]

    def rendezvous(self):
        """The place where trainers meet; None: the mode has none."""
        if self.elastic():
            return flag_of(self.container(self.trainers)["args"], "rendezvous")
        return self.environment(self.trainers).get("TANDEM_RENDEZVOUS")

    def environment(self, workload):
        return {e["name"]: e.get("value") for e in self.container(workload)["env"]}


def flag_of(args, name):
    found = [a.split("=", 1)[1] for a in args if a.startswith(f"--{name}=")]
    assert len(found) == 1, (name, args)
    return found[0]


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.manifests = [Manifests(variant) for variant in VARIANTS]

    def test_names_and_numbers_agree(self):
        for m in self.manifests:
            ranks = m.trainers["spec"]["completions"]
            if m.elastic():
                hosts = flag_of(m.container(m.trainers)["args"], "hosts")
                self.assertEqual(hosts, f"1:{ranks}")
                self.assertEqual(m.one("PodDisruptionBudget")["spec"]["minAvailable"], ranks - 1)
            else:
                self.assertEqual(m.environment(m.trainers)["TANDEM_SIZE"], str(ranks))
            self.assertEqual(m.trainers["spec"]["parallelism"], ranks)
            self.assertEqual(m.trainers["spec"]["completionMode"], "Indexed")
            for service in m.services.values():
                # A process that waits for its peers is not ready, but its name must resolve.
                self.assertEqual(service["spec"]["clusterIP"], "None")
                self.assertTrue(service["spec"]["publishNotReadyAddresses"])

    def test_the_autoscaler_of_the_guide_fits(self):
        with open(os.path.join(script.SOURCE, "docs", "guides", "autoscaling.md"),
                  encoding="utf-8") as file:
            blocks = re.findall(r"```scaled-object.yaml\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(blocks), 1)
        scaled = yaml.safe_load(blocks[0])
        elastic = next(m for m in self.manifests if m.elastic())
        name = elastic.trainers["metadata"]["name"]
        self.assertEqual(scaled["spec"]["scaleTargetRef"]["name"], name)
        hosts = flag_of(elastic.container(elastic.trainers)["args"], "hosts")
        spec = scaled["spec"]
        self.assertEqual(f"{spec['minReplicaCount']}:{spec['maxReplicaCount']}", hosts)
        metrics = re.findall(r"tandem_\w+", spec["triggers"][0]["metadata"]["query"])
        with open(os.path.join(script.SOURCE, "docs", "reference", "metrics.md"),
                  encoding="utf-8") as file:
            described = set(re.findall(r"`(tandem_\w+)", file.read()))
        self.assertTrue(metrics)
        for metric in metrics:
            self.assertIn(re.sub("_(sum|count)$", "", metric), described)

    def test_trainers_find_pservers(self):
        for m in (m for m in self.manifests if m.pservers):
            servers, ranks = m.container(m.pservers), m.trainers["spec"]["completions"]
            replicas, name = m.pservers["spec"]["replicas"], m.pservers["spec"]["serviceName"]
            self.assertIn(name, m.services)
            port = flag_of(servers["args"], "listen").split(":")[1]
            self.assertEqual(m.environment(m.trainers)["TANDEM_PSERVERS"].split(","),
                             [f"{m.pservers['metadata']['name']}-{i}.{name}:{port}"
                              for i in range(replicas)])
            self.assertEqual(flag_of(servers["args"], "trainers"), str(ranks))
            job = m.one("ConfigMap")["data"]["job.pbtxt"]
            self.assertIn(f'name: "{flag_of(servers["args"], "job")}"', job)
            self.assertEqual(m.pservers["spec"]["podManagementPolicy"], "Parallel")

    def test_trainers_meet_at_the_name_of_the_first(self):
        for m in self.manifests:
            mode = flag_of(m.container(m.trainers)["args"], "mode")
            self.assertEqual(m.rendezvous() is not None, mode != "pserver")
            self.assertEqual(m.pservers is None, mode == "collective")
            if mode == "pserver":
                continue
            name, service = m.trainers["metadata"]["name"], m.pod(m.trainers)["subdomain"]
            self.assertIn(service, m.services)
            self.assertEqual(m.rendezvous(),
                             f"tcp://{name}-0.{service}:{m.rendezvous_port()}")

    def test_ports_agree(self):
        for m in self.manifests:
            for workload in m.workloads:
                container = m.container(workload)
                flags = ("listen", "status_listen") if workload is m.pservers \
                    else ("status_listen",)
                heard = {int(flag_of(container["args"], f).split(":")[1]) for f in flags}
                if workload is m.trainers and m.rendezvous_port():
                    heard.add(m.rendezvous_port())
                named = {p["name"]: p["containerPort"] for p in container["ports"]}
                admin = int(flag_of(container["args"], "status_listen").split(":")[1])
                health = int(flag_of(container["args"], "health_listen").split(":")[1])
                self.assertEqual(set(named.values()), heard | {health})
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if probe in container:
                        self.assertEqual(named[container[probe]["httpGet"]["port"]], health)
                annotations = workload["spec"]["template"]["metadata"]["annotations"]
                self.assertEqual(annotations["prometheus.io/port"], str(admin))
                self.assertEqual(self.ports_let_in(m, workload), heard, "network.yaml")
                service = workload["spec"].get("serviceName", m.pod(workload).get("subdomain"))
                if service:
                    ports = {p["port"] for p in m.services[service]["spec"]["ports"]}
                    self.assertEqual(ports, heard)

    def test_memory_is_limited(self):
        for m in self.manifests:
            for workload in m.workloads:
                limit = m.container(workload)["resources"]["limits"]["memory"]
                self.assertRegex(limit, r"^\d+Gi$")
            if not m.pservers:
                continue
            messages = int(flag_of(m.container(m.pservers)["args"], "message_memory_mb"))
            limit = m.container(m.pservers)["resources"]["limits"]["memory"]
            self.assertLessEqual(2 * messages, int(limit[:-2]) << 10)

    def ports_let_in(self, manifests, workload):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        ports = set()
        for policy in (m for m in manifests.all if m["kind"] == "NetworkPolicy"):
            chosen = policy["spec"]["podSelector"]["matchLabels"]
            if not chosen.items() <= labels.items():
                continue
            for rule in policy["spec"]["ingress"]:
                if "ports" in rule:
                    ports |= {p["port"] for p in rule["ports"]}
                else:  # peers, at all ports
                    self.assertEqual([peer["podSelector"]["matchLabels"] for peer in rule["from"]],
                                     [chosen])
                    ports.add(manifests.rendezvous_port())
        return ports

    def test_selectors_choose_their_pods(self):
        for m in self.manifests:
            others = m.trainers["spec"]["template"]["metadata"]["labels"]
            if "subdomain" in m.pod(m.trainers):
                chosen = m.services[m.pod(m.trainers)["subdomain"]]["spec"]["selector"]
                self.assertLessEqual(chosen.items(), others.items())
            if not m.pservers:
                continue
            labels = m.pservers["spec"]["template"]["metadata"]["labels"]
            for selector in (m.services[m.pservers["spec"]["serviceName"]]["spec"]["selector"],
                             m.pservers["spec"]["selector"]["matchLabels"],
                             m.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"]):
                self.assertLessEqual(selector.items(), labels.items())
                self.assertFalse(selector.items() <= others.items())

    def test_least_rights(self):
        for m in self.manifests:
            for workload in m.workloads:
                pod, container = m.pod(workload), m.container(workload)
                self.assertTrue(pod["securityContext"]["runAsNonRoot"])
                self.assertGreater(pod["securityContext"]["runAsUser"], 999)
                self.assertFalse(pod["automountServiceAccountToken"])
                self.assertEqual(container["securityContext"],
                                 {"allowPrivilegeEscalation": False,
                                  "readOnlyRootFilesystem": True,
                                  "capabilities": {"drop": ["ALL"]}})
                for volume in pod["volumes"]:
                    if "secret" in volume:
                        self.assertIn(volume["secret"]["secretName"], BY_HAND)
                        self.assertEqual(volume["secret"]["defaultMode"], 0o440)

    def test_every_mount_has_a_volume(self):
        for m in self.manifests:
            for workload in m.workloads:
                volumes = {v["name"] for v in m.pod(workload)["volumes"]}
                volumes |= {c["metadata"]["name"]
                            for c in workload["spec"].get("volumeClaimTemplates", [])}
                mounts = m.container(workload)["volumeMounts"]
                self.assertEqual({mount["name"] for mount in mounts}, volumes)
            job = [v["configMap"]["name"] for v in m.pod(m.trainers)["volumes"] if "configMap" in v]
            self.assertEqual(job, [m.one("ConfigMap")["metadata"]["name"]])

    def test_the_programs_accept_every_flag(self):
        known = subprocess.run([os.path.join(script.BIN, "tandem-pserver"), "--help"],
                               capture_output=True, text=True, check=True).stdout
        launcher = subprocess.run([os.path.join(script.BIN, "tandemrun"), "--help"],
                                  capture_output=True, text=True, check=True).stdout
        for m in self.manifests:
            for arg in m.container(m.pservers)["args"] if m.pservers else []:
                self.assertRegex(known, rf"(?m)^  --{arg[2:].split('=')[0]} ")
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "job.pbtxt")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(m.one("ConfigMap")["data"]["job.pbtxt"])
                args = [a.replace("/etc/tandem", folder) for a in m.container(m.trainers)["args"]]
                if m.elastic():
                    *flags, job = args[:args.index("--")]
                    self.assertEqual(job, path)
                    for flag in flags:
                        self.assertRegex(launcher, rf"(?m)^  --{flag[2:].split('=')[0]}\b")
                    args = ["--job_file=" + job, *args[args.index("--") + 1:]]
                done = subprocess.run([os.path.join(script.BIN, "tandem-trainer"), *args, "--check"],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_containers_train(self):
        for variant in ("base", "overlays/tls"):
            with self.subTest(variant), \
                    tempfile.TemporaryDirectory(prefix="tandem-pods-") as folder:
                Pods(self, Manifests(variant), folder).train()


class Pods:
    """Containers as processes: addresses, folders and what the kubelet fills in are those of here."""

    def __init__(self, test, manifests, folder):
        self.test, self.m, self.folder = test, manifests, folder
        self.ports = free_ports(10)
        with open(os.open(os.path.join(folder, "secret"), os.O_CREAT | os.O_WRONLY, 0o440),
                  "w", encoding="utf-8") as file:
            file.write("a secret of a cluster")
        with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(manifests.one("ConfigMap")["data"]["job.pbtxt"])
        self.tandem("certs", "init", "pki")
        for role in ("pserver", "trainer"):
            hosts = ["--host=127.0.0.1"] if role == "pserver" else []
            self.tandem("certs", "issue", "pki", "--job=lenet", f"--role={role}", *hosts)

    def tandem(self, *args):
        subprocess.run([os.path.join(script.BIN, "tandem"), *args], cwd=self.folder, check=True,
                       capture_output=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def here(self, text, role, index):
        """`text` of a manifest, as it is on this machine."""
        for i in range(2):
            text = text.replace(f"tandem-pserver-{i}.tandem-pserver:7000",
                                f"127.0.0.1:{self.ports + i}")
        text = text.replace("0.0.0.0:7000", f"127.0.0.1:{self.ports + index}")
        text = text.replace("0.0.0.0:9000", f"127.0.0.1:{self.admin(role, index)}")
        text = text.replace("0.0.0.0:9001", f"127.0.0.1:{self.health(role, index)}")
        text = text.replace("$(POD_INDEX)", str(index))
        for mounted, path in (("/etc/tandem", self.folder),
                              ("/run/tandem/secret", self.folder),
                              ("/run/tandem/tls", self.path("pki", "lenet", role)),
                              ("/var/lib/tandem", self.path(f"{role}-{index}"))):
            text = text.replace(mounted, path)
        self.test.assertNotRegex(text, r"0\.0\.0\.0|\$\(|/(run|var/lib)/tandem")
        return text

    def admin(self, role, index):
        return self.ports + 2 + index + (2 if role == "trainer" else 0)

    def health(self, role, index):
        return self.admin(role, index) + 4

    def start(self, workload, role, index, *more):
        container = self.m.container(workload)
        environment = {"PATH": os.environ["PATH"]}
        for name, value in self.m.environment(workload).items():
            if value is None:  # a field of the pod that kubectl does not know
                value = str(index)
            environment[name] = self.here(value, role, index)
        command = [os.path.join(script.BIN, container["command"][0]),
                   *(self.here(a, role, index) for a in container["args"]), *more]
        return processes.Background(command, self.folder, f"{role}-{index}.log", environment)

    def answers(self, role, index, probe):
        path = self.m.container(self.m.pservers)[probe]["httpGet"]["path"]
        url = f"http://127.0.0.1:{self.health(role, index)}{path}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status == 200
        except (urllib.error.HTTPError, OSError):
            return False

    def train(self):
        with self.start(self.m.pservers, "pserver", 0) as first, \
                self.start(self.m.pservers, "pserver", 1) as second:
            for index, server in enumerate((first, second)):
                self.test.assertTrue(processes.wait_until(
                    lambda i=index: self.answers("pserver", i, "livenessProbe"), 60),
                    server.output())
                # Alive but not ready: it has no parameters yet.
                self.test.assertFalse(self.answers("pserver", index, "readinessProbe"))
            more = ["--steps_max=20", "--checkpoint.dir=" + self.path("checkpoints"),
                    "--data.synthetic.samples=4000"]
            with self.start(self.m.trainers, "trainer", 0, *more) as zero, \
                    self.start(self.m.trainers, "trainer", 1, *more) as one:
                for trainer in (zero, one):
                    self.test.assertTrue(processes.wait_until(trainer.ended, 120))
                    self.test.assertEqual(trainer.process.returncode, 0, trainer.output())
            self.test.assertTrue(os.listdir(self.path("checkpoints")))
            for index, server in enumerate((first, second)):
                self.test.assertTrue(self.answers("pserver", index, "readinessProbe"))
                self.test.assertFalse(server.ended(), server.output())


if __name__ == "__main__":
    script.main()
