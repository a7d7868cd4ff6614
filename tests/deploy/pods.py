"""Runs the pods of manifests as Kubernetes does, without a cluster: each pod is on an emulated host
(tandem-pod-network), with the process, mount, IPC and UTS namespaces of a container. Programs get
the environment, arguments, files, user and signals that the kubelet gives. Names of headless
services are in /etc/hosts of all pods. A pod that is made again has another address.

Left out: schedulers, network policies, limits of memory and CPU."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import container
import processes
import script

NAMESPACE = "default"
# Directories of this machine that are part of the image.
IMAGE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ssl", "/etc/ld.so.cache",
         "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/nsswitch.conf",
         "/etc/passwd", "/etc/group")
PROGRAMS = "/opt/tandem"  # build/bin, in a container
DEVICES = ("null", "zero", "full", "random", "urandom")
# The kubelet waits 10 s, then 20 s and so on, before it starts a container again. This emulation
# waits a shorter time.
SECONDS_BEFORE_RESTART = 0.2


class Network:
    """Emulated hosts, one per pod. Skips the test where namespaces are not permitted."""

    def __init__(self, hosts):
        program = os.path.join(script.BUILD, "tests", "tandem-pod-network")
        if not os.path.exists(program):
            script.skip(f"no {program}: build the target tandem-pod-network")
        tried = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--uts", "--net", "--fork",
                                "mount", "-t", "tmpfs", "none", "/mnt"],
                               capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            script.skip(f"no namespaces here: {tried.stderr.strip()}")
        self.process = subprocess.Popen([program, str(hosts)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines = [self.process.stdout.readline() for _ in range(hosts)]
        if not lines[-1]:
            script.skip(self.process.stderr.read().strip())
        self.free = [json.loads(line) for line in lines]
        self.numbers = {host["address"]: number for number, host in enumerate(self.free)}

    def take(self):
        return self.free.pop(0)

    def give_back(self, host):
        """The host becomes the last one that is used again."""
        self.free.append(host)

    def set_fault(self, host, fault):
        """`fault`: none, from, to or both: the direction in which packets are dropped."""
        self.process.stdin.write(f"fault {self.numbers[host['address']]} {fault}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n", self.process.stderr.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def on_host(host, call):
    """Returns call(), made from the network namespace of a host."""
    results = []

    def run():
        container.enter(host["space"])
        results.append(call())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def write(path, data, mode):
    """Writes a file whose mode does not depend on the umask."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(data)
    os.chmod(path, mode)


def write_volume(path, data, mode, group):
    """Writes the files of a Secret or a ConfigMap. As in a pod, they are symbolic links into a
    directory that one link replaces at once."""
    dated = os.path.join(path, "..2026_01_01")
    os.makedirs(dated)
    for name, content in data.items():
        write(os.path.join(dated, name), content, mode)
        os.chown(os.path.join(dated, name), 0, group)
        os.symlink(f"..data/{name}", os.path.join(path, name))
    os.symlink("..2026_01_01", os.path.join(path, "..data"))
    for directory in (path, dated):
        os.chmod(directory, 0o755)


class Pod:
    """One pod with one container. `cluster` makes it; ended() and exit_code tell its end."""

    def __init__(self, cluster, name, template, metadata, claims):
        self.cluster, self.name = cluster, name
        self.spec, self.metadata = template["spec"], metadata
        self.container = self.spec["containers"][0]
        assert len(self.spec["containers"]) == 1
        self.claims = claims  # the directory of each persistent volume, by the volume's name
        self.host = cluster.network.take()
        self.starts, self.killed = 0, False
        self.path = os.path.join(cluster.pods_folder, f"{name}.{cluster.next_number()}")
        os.makedirs(self.path)
        self.volumes = {v["name"]: self.volume(v) for v in self.spec.get("volumes", [])}
        self.volumes.update(claims)
        self.process = None
        self.ended_at = None

    # --- what the kubelet makes for a container ---

    def volume(self, volume):
        """Returns the directory of a volume of the pod."""
        group = self.spec["securityContext"]["fsGroup"]
        path = os.path.join(self.path, "volumes", volume["name"])
        os.makedirs(path)
        if "configMap" in volume:
            write_volume(path, self.cluster.data("ConfigMap", volume["configMap"]["name"]),
                         volume["configMap"].get("defaultMode", 0o644), 0)
        elif "secret" in volume:
            write_volume(path, self.cluster.data("Secret", volume["secret"]["secretName"]),
                         volume["secret"].get("defaultMode", 0o644), group)
        elif "emptyDir" in volume:
            os.chown(path, 0, group)
            os.chmod(path, 0o2777)
        else:
            return self.cluster.claim(volume["persistentVolumeClaim"]["claimName"], group)
        return path

    def field(self, path):
        """Returns a field of the downward API."""
        key = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
        if key:
            return self.metadata[key[1]].get(key[2], "")
        return {"metadata.name": self.name, "metadata.namespace": NAMESPACE,
                "status.podIP": self.host["address"]}[path]

    def environment(self):
        """The environment of the container: of the image, the kubelet and the manifest."""
        values = {"PATH": f"{PROGRAMS}:/usr/local/bin:/usr/bin:/bin", "HOSTNAME": self.name,
                  "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        for entry in self.container.get("env", []):
            if "valueFrom" in entry:
                values[entry["name"]] = self.field(entry["valueFrom"]["fieldRef"]["fieldPath"])
            else:
                values[entry["name"]] = self.expanded(entry["value"], values)
        return values

    @staticmethod
    def expanded(text, values):
        """Replaces $(NAME) as Kubernetes does: a name without value stays as it is."""
        return re.sub(r"\$\((\w+)\)", lambda m: values.get(m[1], m[0]), text)

    def root(self):
        """Returns a shell script that makes the container's file system in $ROOT."""
        lines = ["set -e", "mount --make-rprivate /", "mount -t tmpfs -o mode=755 image $ROOT",
                 "mkdir -p $ROOT/etc $ROOT/dev/shm $ROOT/proc $ROOT/tmp $ROOT/run $ROOT/var/lib",
                 "chmod 1777 $ROOT/tmp"]
        for path in IMAGE:
            if os.path.islink(path):
                lines.append(f"ln -s {os.readlink(path)} $ROOT{path}")
            elif os.path.isdir(path):
                lines.append(f"mkdir -p $ROOT{path}; mount --bind {path} $ROOT{path}; "
                             f"mount -o remount,ro,bind $ROOT{path}")
            elif os.path.exists(path):
                lines.append(f"touch $ROOT{path}; mount --bind {path} $ROOT{path}")
        mounts = [(script.BIN, PROGRAMS, True)]
        for mount in self.container.get("volumeMounts", []):
            mounts.append((self.volumes[mount["name"]], mount["mountPath"],
                           mount.get("readOnly", False)))
        for source, target, read_only in mounts:
            lines.append(f"mkdir -p $ROOT{target}; mount --bind {source} $ROOT{target}")
            if read_only:
                lines.append(f"mount -o remount,ro,bind $ROOT{target}")
        for device in DEVICES:
            lines.append(f"touch $ROOT/dev/{device}; "
                         f"mount --bind /dev/{device} $ROOT/dev/{device}")
        lines += ["mount -t tmpfs -o mode=1777,size=64m shm $ROOT/dev/shm",
                  "mount -t proc proc $ROOT/proc",
                  f"touch $ROOT/etc/hosts; mount --bind {self.cluster.hosts_file} $ROOT/etc/hosts",
                  "echo nameserver 10.96.0.10 >$ROOT/etc/resolv.conf",
                  f"hostname {self.name}"]
        if self.container["securityContext"].get("readOnlyRootFilesystem"):
            lines.append("mount -o remount,ro $ROOT")
        return "\n".join(lines)

    def start(self):
        """Starts the container, again if it has ended."""
        self.starts += 1
        self.ended_at = None
        user = self.spec["securityContext"]
        values = self.environment()
        command = [self.expanded(word, values)
                   for word in self.container["command"] + self.container.get("args", [])]
        become = ["setpriv", f"--reuid={user['runAsUser']}", f"--regid={user['runAsGroup']}",
                  f"--groups={user['fsGroup']}", "--bounding-set=-all", "--inh-caps=-all",
                  "--no-new-privs", "--", "env", "-i",
                  *(f"{name}={value}" for name, value in values.items()), *command]
        root = os.path.join(self.path, "root")
        os.makedirs(root, exist_ok=True)
        begin = f"ROOT={root}\n{self.root()}\nexec chroot $ROOT /bin/sh -c " + \
            shlex.quote("cd /tmp; exec " + shlex.join(become))
        with open(self.log(), "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-B", container.__file__, self.host["space"], begin],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    # --- what users and the kubelet see ---

    def log(self):
        return os.path.join(self.path, "log")

    def output(self):
        with open(self.log(), encoding="utf-8", errors="replace") as file:
            return file.read()

    def main_process(self):
        """Returns the id of the container's process 1 on this machine; 0: it has ended."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                      encoding="ascii") as file:
                children = file.read().split()
        except FileNotFoundError:
            return 0
        return int(children[0]) if children else 0

    def signal(self, number):
        main = self.main_process()
        if main:
            os.kill(main, number)

    @property
    def exit_code(self):
        """Exit code of the container, or 128 + signal; None while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def ended(self):
        return self.exit_code is not None

    def probe(self, name):
        """Returns whether a probe of the manifest succeeds now."""
        probe = self.container[name]
        port = probe["httpGet"]["port"]
        named = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        url = f"http://{self.host['address']}:{named.get(port, port)}{probe['httpGet']['path']}"

        def ask():
            try:
                opened = urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1))
                with opened as answer:
                    return 200 <= answer.status < 400
            except (urllib.error.HTTPError, OSError):
                return False
        return on_host(self.host, ask)

    def ready(self):
        return not self.ended() and ("readinessProbe" not in self.container or
                                     self.probe("readinessProbe"))

    def pre_stop(self):
        hook = self.container.get("lifecycle", {}).get("preStop")
        main = self.main_process()
        if not hook or not main:
            return
        user = self.spec["securityContext"]
        values = self.environment()
        subprocess.run(["nsenter", f"--target={main}", "--all", "--root", "--wd", "setpriv",
                        f"--reuid={user['runAsUser']}", f"--regid={user['runAsGroup']}",
                        f"--groups={user['fsGroup']}", "--", "env", "-i",
                        *(f"{name}={value}" for name, value in values.items()),
                        *hook["exec"]["command"]], stdin=subprocess.DEVNULL, check=False,
                       timeout=self.grace_seconds())

    def grace_seconds(self):
        return self.spec.get("terminationGracePeriodSeconds", 30)

    def stop(self):
        """Ends the container as the kubelet does: preStop, SIGTERM, and SIGKILL after the grace
        period. `killed` tells whether SIGKILL was necessary."""
        end = time.monotonic() + self.grace_seconds()
        if not self.ended():
            self.pre_stop()
            self.signal(signal.SIGTERM)
        if not processes.wait_until(self.ended, max(0, end - time.monotonic())):
            self.killed = True
            self.kill()

    def kill(self):
        """SIGKILL for all processes of the container, as when its memory is not enough."""
        while not processes.wait_until(self.ended, 0.2):
            self.signal(signal.SIGKILL)


class StatefulSet:
    """The controller of a StatefulSet: starts containers again, and replaces deleted pods."""

    def __init__(self, cluster, manifest):
        self.cluster, self.manifest = cluster, manifest
        self.name, self.spec = manifest["metadata"]["name"], manifest["spec"]
        self.pods = {}

    def pod_name(self, index):
        return f"{self.name}-{index}"

    def make(self, index):
        name, template = self.pod_name(index), self.spec["template"]
        labels = dict(template["metadata"]["labels"])
        labels["apps.kubernetes.io/pod-index"] = str(index)
        labels["statefulset.kubernetes.io/pod-name"] = name
        group = template["spec"]["securityContext"]["fsGroup"]
        claims = [c["metadata"]["name"] for c in self.spec.get("volumeClaimTemplates", [])]
        claims = {c: self.cluster.claim(f"{c}-{name}", group) for c in claims}
        metadata = {"labels": labels, "annotations": template["metadata"].get("annotations", {})}
        pod = Pod(self.cluster, name, template, metadata, claims)
        self.cluster.add_name(pod, name, self.spec["serviceName"])
        pod.start()
        return pod

    def step(self):
        """Acts on what has changed."""
        for index in range(self.spec["replicas"]):
            pod = self.pods.get(index)
            if pod is None:
                self.pods[index] = self.make(index)
            elif pod.ended():
                pod.ended_at = pod.ended_at or time.monotonic()
                if time.monotonic() - pod.ended_at >= SECONDS_BEFORE_RESTART:
                    pod.start()


    def on_delete(self, index, pod):
        self.cluster.remove(pod)
        del self.pods[index]


class Job:
    """The controller of an Indexed Job with its podFailurePolicy."""

    def __init__(self, cluster, manifest):
        self.cluster, self.manifest = cluster, manifest
        self.name, self.spec = manifest["metadata"]["name"], manifest["spec"]
        assert self.spec["completionMode"] == "Indexed"
        assert self.spec["template"]["spec"]["restartPolicy"] == "Never"
        self.pods, self.complete, self.failures = {}, set(), []
        self.disrupted = set()  # pods that an eviction has ended
        self.failed = ""
        self.order = list(range(self.spec["completions"]))  # in which pods are made

    def scale(self, count):
        """Changes the number of pods, as a patch of completions and parallelism does."""
        self.spec["completions"] = self.spec["parallelism"] = count
        self.order = list(range(count))
        for index in [i for i in self.pods if i >= count]:
            pod = self.pods.pop(index)
            pod.stop()
            self.cluster.remove(pod)

    def make(self, index):
        name, template = f"{self.name}-{index}", self.spec["template"]
        number = {"batch.kubernetes.io/job-completion-index": str(index)}
        metadata = {"labels": {**template["metadata"]["labels"], **number},
                    "annotations": {**template["metadata"].get("annotations", {}), **number}}
        pod = Pod(self.cluster, f"{name}-{self.cluster.next_number():05d}", template, metadata, {})
        pod.container = dict(pod.container)
        pod.container["env"] = pod.container.get("env", []) + [
            {"name": "JOB_COMPLETION_INDEX", "value": str(index)}]
        if "subdomain" in template["spec"]:
            self.cluster.add_name(pod, name, template["spec"]["subdomain"])
        pod.start()
        return pod

    def verdict(self, pod):
        """The action of the first rule of the podFailurePolicy that fits."""
        for rule in self.spec.get("podFailurePolicy", {}).get("rules", []):
            codes = rule.get("onExitCodes")
            if codes and codes["operator"] == "In" and pod.exit_code in codes["values"]:
                return rule["action"]
            conditions = {c["type"] for c in rule.get("onPodConditions", [])}
            if "DisruptionTarget" in conditions and pod in self.disrupted:
                return rule["action"]
        return "Count"

    def step(self):
        """Acts on what has changed."""
        for index in self.order:
            if index in self.complete or self.failed:
                continue
            pod = self.pods.get(index)
            if pod is None:
                self.pods[index] = self.make(index)
            elif pod.ended():
                self.on_end(index, pod)

    def on_delete(self, _, pod):
        self.disrupted.add(pod)

    def on_end(self, index, pod):
        if pod.exit_code == 0:
            self.complete.add(index)
            return
        action = self.verdict(pod)
        self.failures.append((pod.name, pod.exit_code, action))
        counted = sum(action == "Count" for _, _, action in self.failures)
        if action == "FailJob" or counted > self.spec["backoffLimit"]:
            self.failed = f"{pod.name} ended with {pod.exit_code}: {action}"
            for other in self.pods.values():
                other.stop()
            return
        self.cluster.remove(pod)
        self.pods[index] = self.make(index)

    def done(self):
        return self.failed or len(self.complete) == self.spec["completions"]


class Cluster:
    """The manifests of one namespace, and their pods. Ends all pods when the block ends."""

    def __init__(self, network, manifests, folder, secrets):
        self.network, self.manifests, self.folder = network, manifests, folder
        self.secrets = secrets  # files of each Secret by name
        # A later cluster may have the same directory: it finds the persistent volumes.
        self.pods_folder = tempfile.mkdtemp(prefix="pods-", dir=folder)
        os.chmod(self.pods_folder, 0o755)
        self.hosts_file = os.path.join(self.pods_folder, "hosts")
        self.names, self.number = {}, 0
        # Pods have names before they are ready only if the service publishes not-ready addresses.
        self.services = {m["metadata"]["name"] for m in manifests
                         if m["kind"] == "Service" and m["spec"].get("clusterIP") == "None"
                         and m["spec"].get("publishNotReadyAddresses")}
        self.write_names()
        self.sets = {m["metadata"]["name"]: StatefulSet(self, m)
                     for m in manifests if m["kind"] == "StatefulSet"}
        self.jobs = {m["metadata"]["name"]: Job(self, m)
                     for m in manifests if m["kind"] == "Job"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.running():
            pod.kill()
            self.network.give_back(pod.host)

    def next_number(self):
        self.number += 1
        return self.number

    def running(self):
        controllers = [*self.sets.values(), *self.jobs.values()]
        return [pod for controller in controllers for pod in controller.pods.values()]

    def data(self, kind, name):
        if kind == "Secret":
            return self.secrets[name]
        found = [m for m in self.manifests
                 if m["kind"] == kind and m["metadata"]["name"] == name]
        return found[0]["data"]

    def claim(self, name, group):
        """Returns the directory of a persistent volume, which outlives pods."""
        path = os.path.join(self.folder, "claims", name)
        if not os.path.exists(path):
            os.makedirs(path)
            os.chown(path, 0, group)
            os.chmod(path, 0o2775)
        return path

    def add_name(self, pod, name, service):
        """Makes a pod known by the name of its headless service."""
        assert service in self.services, f"no headless service {service} that publishes them"
        self.names[f"{name}.{service}"] = pod.host["address"]
        self.write_names()

    def write_names(self):
        """Replaces the content of the mounted file. The file is never empty."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{address} {name}.{NAMESPACE}.svc.cluster.local {name}"
                  for name, address in self.names.items()]
        text = ("\n".join(lines) + "\n").encode()
        file = os.open(self.hosts_file, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))
        os.close(file)

    def remove(self, pod):
        """A pod that is no more has no host and no name."""
        self.names = {n: a for n, a in self.names.items() if a != pod.host["address"]}
        self.write_names()
        self.network.give_back(pod.host)
        shutil.rmtree(os.path.join(pod.path, "volumes"), ignore_errors=True)

    def delete(self, pod):
        """Ends a pod, as kubectl delete does or an eviction. Its controller makes another."""
        for controller in (*self.sets.values(), *self.jobs.values()):
            for index, own in list(controller.pods.items()):
                if own is pod:
                    pod.stop()
                    controller.on_delete(index, pod)

    def step(self):
        for controller in (*self.sets.values(), *self.jobs.values()):
            controller.step()

    def run_until(self, done, seconds_max):
        """Lets the controllers act until done(). Returns whether it became true in time."""
        def act():
            self.step()
            return done()
        return processes.wait_until(act, seconds_max)
