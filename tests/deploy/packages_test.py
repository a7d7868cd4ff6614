"""The Debian packages that cpack makes: what is in them, that their programs and clients run from them
and, as root with mmdebstrap and a network, that apt installs them into a clean Debian, where a job
trains, and removes them without leaving anything."""

import glob
import itertools
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import processes
import script
from ports import free_ports

script.need_programs("cpack", package="cmake")
script.need_programs("dpkg-deb", "dpkg-shlibdeps", package="dpkg-dev")

JOB = """
name: "packaged"
model { zoo: "lenet" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 28 image: 28 classes: 10 samples: 640 test_samples: 64 }
}
optimizer { type: "momentum" learning_rate: 0.01 }
global_batch_size: 32
steps_max: 20
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tandem-packages-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        run("cpack", "-G", "DEB", "--config", os.path.join(script.BUILD, "CPackConfig.cmake"),
            "-B", os.path.join(cls.folder, "debs"), cwd=cls.folder)
        cls.debs = {run("dpkg-deb", "--field", path, "Package").strip(): path
                    for path in glob.glob(os.path.join(cls.folder, "debs", "*.deb"))}
        cls.root = os.path.join(cls.folder, "root")
        for path in cls.debs.values():
            run("dpkg-deb", "--extract", path, cls.root)

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def contents(self, package):
        lines = run("dpkg-deb", "--contents", self.debs[package]).splitlines()
        return {line.split()[5][1:] for line in lines if not line.endswith("/")}

    def test_what_is_in_them(self):
        self.assertEqual(set(self.debs), {"tandem", "libtandem-dev", "python3-tandem"})
        programs = {"tandem", "tandemrun", "tandem-pserver", "tandem-trainer"}
        self.assertEqual({f for f in self.contents("tandem") if f.startswith("/usr/bin/")},
                         {"/usr/bin/" + name for name in programs})
        for file in ("/usr/lib/systemd/system/tandem-pserver@.service",
                     "/usr/lib/sysusers.d/tandem.conf",
                     "/usr/share/tandem/systemd/pserver.env",
                     "/usr/share/tandem/kubernetes/base/kustomization.yaml",
                     "/usr/share/tandem/monitoring/rules.yml",
                     "/usr/share/doc/tandem/guides/run-as-a-service.md",
                     "/usr/share/bash-completion/completions/tandem-trainer",
                     "/usr/share/man/man1/tandem.1",
                     "/usr/share/man/man8/tandem-pserver.8"):
            self.assertIn(file, {f.replace("/lib/systemd", "/usr/lib/systemd", 1)
                                 if f.startswith("/lib/") else f
                                 for f in self.contents("tandem")})
        self.assertIn("/usr/include/tandem/pserver/client/client.h",
                      self.contents("libtandem-dev"))
        packages = "/usr/lib/python3/dist-packages/"
        for file in ("tandem/_core.cpython-311-x86_64-linux-gnu.so", "tandem/py.typed",
                     "tandem/paddle_names/paddle/fluid/layers.py", "tandem/ps.py",
                     "tandem/ps.pyi", "tandem_pserver/client.py"):
            self.assertIn(packages + file, self.contents("python3-tandem"))
        depends = run("dpkg-deb", "--field", self.debs["python3-tandem"], "Depends")
        for package in ("python3 (<< 3.12~)", "python3-numpy", "libgrpc++1.51"):
            self.assertIn(package, depends)
        depends = run("dpkg-deb", "--field", self.debs["tandem"], "Depends")
        for library in ("libc6 ", "libgrpc++1.51", "libdnnl2", "librdkafka1", "librocksdb7.8",
                        "libisal2", "libjpeg62-turbo", "libpng16-16"):
            self.assertIn(library, depends)
        for name, path in self.debs.items():
            owners = {line.split()[1] for line in run("dpkg-deb", "--contents", path).splitlines()}
            self.assertEqual(owners, {"root/root"}, name)
            for file in self.contents(name):
                self.assertTrue(file.startswith(("/usr/", "/lib/", "/etc/", "/var/")), file)

    def test_a_job_trains_with_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
                file.write(JOB)
            run(self.path("usr/bin/tandemrun"), "--servers=1", "--workers=2", "job.pbtxt",
                cwd=folder)

    def test_the_cpp_client(self):
        """deploy/examples/cpp_client, by find_package(Tandem), against a server."""
        build = os.path.join(self.folder, "client")
        example = self.path("usr/share/tandem/examples/cpp_client")
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run("cmake", "-G", "Ninja", "-S", example, "-B", build, *launcher,
            "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_PREFIX_PATH=" + self.path("usr"))
        run("cmake", "--build", build)
        address = f"127.0.0.1:{free_ports(1)}"
        with processes.Background([self.path("usr/bin/tandem-pserver"), "--listen=" + address,
                                   "--job=line", "--trainers=1"], self.folder, "pserver.log"):
            self.assertIn("y = 2.0000 x + -1.0000", run(os.path.join(build, "client"), address))

    def test_the_container_file_copies_what_is_built(self):
        with open(os.path.join(script.SOURCE, "deploy", "container", "Containerfile"),
                  encoding="utf-8") as file:
            text = file.read()
        copied = set(re.findall(r"^COPY (\w+) \1$", text, re.M))
        with open(os.path.join(script.SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
            needed = set(re.findall(r"add_subdirectory\((\w+)\)", file.read()))
        self.assertEqual(copied, (needed - {"tests"}) | {"docs"})
        users = re.findall(r"^USER (.*)$", text, re.M)
        self.assertEqual(users, ["10001:10001"])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("mmdebstrap"),
                         "a clean Debian needs root and Debian's package mmdebstrap")
    def test_a_clean_debian(self):
        root = os.path.join(self.folder, "clean")
        try:
            run("mmdebstrap", "--variant=apt", "bookworm", root, timeout=200)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            self.skipTest(f"a clean Debian needs its archive: {str(error)[-300:]}")

        def inside(*command):
            # In a separate /proc, which is removed when the command ends.
            return run("unshare", "--mount", "--pid", "--fork", "--kill-child",
                       f"--mount-proc={root}/proc", "chroot", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                       "DEBIAN_FRONTEND=noninteractive", *command, timeout=300)
        before = inside("dpkg-query", "-W", "-f=${Package}\\n")
        for path in self.debs.values():
            shutil.copy(path, os.path.join(root, "opt"))
        with open(os.path.join(root, "opt", "job.pbtxt"), "w", encoding="utf-8") as file:
            file.write(JOB)
        shutil.copy("/etc/resolv.conf", os.path.join(root, "etc", "resolv.conf"))
        inside("apt-get", "update", "-q")
        inside("apt-get", "install", "-q", "-y", "--no-install-recommends",
               *("/opt/" + os.path.basename(self.debs[name])
                 for name in ("tandem", "python3-tandem")))
        self.assertIn("tandem ", inside("tandem", "version"))
        inside("sh", "-c", "cd /opt && tandemrun --mode=local job.pbtxt")
        inside("python3", "-c", "import tandem_pserver")
        with open(os.path.join(script.SOURCE, "docs/guides/python-ranks.md"),
                  encoding="utf-8") as file:
            programs = re.findall(r"```python\n(.*?)```", file.read(), re.S)
        with open(os.path.join(root, "opt", "train.py"), "w", encoding="utf-8") as file:
            file.write(programs[0])
        said = inside("sh", "-c", "cd /opt && tandemrun --paddle_names --nproc=2 train.py")
        self.assertRegex(said, r"loss \d")
        inside("apt-get", "purge", "-q", "-y", "--auto-remove", "tandem", "python3-tandem")
        after = inside("dpkg-query", "-W", "-f=${Package}\\n")
        self.assertEqual(before, after)
        left = [os.path.join(folder, name) for folder, *names in os.walk(root)  # links lead out of it
                for name in itertools.chain(*names) if "tandem" in name
                and not folder.startswith((root + "/opt", root + "/var/log"))]
        self.assertEqual(left, [])


if __name__ == "__main__":
    script.main()
