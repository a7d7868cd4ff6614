"""The wheel that deploy/wheel.py makes: its files are listed, two runs give the same bytes, and its
module and programs run on the libraries that it brings.

The long form installs it with pip into an empty virtual environment of a clean Debian, as root with
mmdebstrap, a network and a package index with numpy:
  PYTHONPATH=tests/support python3 tests/install/wheel_test.py --build=build --source=. --clean"""

import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

CLEAN = "--clean" in sys.argv
sys.argv = [word for word in sys.argv if word != "--clean"]  # before script reads the others

import script  # noqa: E402

script.need_modules("numpy", package="python3-numpy")
script.need_programs("patchelf", package="patchelf")
script.need_programs("strip", package="binutils")
if not glob.glob(os.path.join(script.BUILD, "python/tandem/_core.cpython-311*.so")):
    script.skip("this build has no module tandem._core (target tandem_core)")

USER = """
import sys, tandem, tandem.ps, tandem_pserver
{program}
with open("/proc/self/maps") as maps:
    print(*sorted({{line.split()[-1] for line in maps if ".so" in line}}), sep="\\n")
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def program_of(page):
    """The first program of a page of the guides."""
    with open(os.path.join(script.SOURCE, "docs/guides", page), encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.S)[0]


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tandem-wheel-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.path = cls.make("first")
        cls.root = os.path.join(cls.folder, "site")
        with zipfile.ZipFile(cls.path) as archive:
            cls.names = archive.namelist()
            for entry in archive.infolist():
                file = archive.extract(entry, cls.root)
                os.chmod(file, entry.external_attr >> 16 & 0o777)

    @classmethod
    def make(cls, name):
        output = os.path.join(cls.folder, name)
        run(sys.executable, os.path.join(script.SOURCE, "deploy/wheel.py"),
            "--build=" + script.BUILD, "--output=" + output)
        wheels = os.listdir(output)
        assert len(wheels) == 1, wheels
        return os.path.join(output, wheels[0])

    def test_the_record_lists_every_file(self):
        self.assertRegex(os.path.basename(self.path),
                         r"^tandem-[\d.]+-cp311-cp311-manylinux_2_36_x86_64.whl$")
        record = next(name for name in self.names if name.endswith(".dist-info/RECORD"))
        with open(os.path.join(self.root, record), encoding="utf-8") as file:
            rows = dict(line.rsplit(",", 2)[:2] for line in file.read().splitlines())
        self.assertEqual(sorted(rows), sorted(self.names))
        for name, digest in rows.items():
            if name == record:
                continue
            with open(os.path.join(self.root, name), "rb") as file:
                found = base64.urlsafe_b64encode(hashlib.sha256(file.read()).digest())
            self.assertEqual(digest, "sha256=" + found.rstrip(b"=").decode(), name)

    def test_each_library_has_its_licence(self):
        libraries = [name for name in self.names if name.startswith("tandem/lib/")]
        self.assertGreater(len(libraries), 30)
        for name in ("LICENSE", "NOTICE", "libgrpc29", "librocksdb7.8", "libdnnl2"):
            self.assertTrue(any(f.endswith("licenses/" + name) for f in self.names), name)
        self.assertFalse([f for f in libraries if re.search(r"libc\.so|libstdc|cuda", f)])

    def test_the_same_bytes_again(self):
        with open(self.path, "rb") as first, open(self.make("second"), "rb") as second:
            self.assertEqual(hashlib.sha256(first.read()).digest(),
                             hashlib.sha256(second.read()).digest())

    def test_a_first_network_runs_on_the_bundled_libraries(self):
        said = run(sys.executable, "-B", "-c", USER.format(program=program_of("python.md")),
                   env={"PYTHONPATH": self.root}, cwd=self.folder)
        self.assertLess(float(re.search(r"loss (\S+)", said)[1]), 0.5)
        mine = [line for line in said.splitlines() if "/tandem/lib/" in line]
        self.assertGreater(len(mine), 30)
        for name in ("libgrpc", "libprotobuf", "libabsl", "libdnnl", "libglog"):
            self.assertFalse([line for line in said.splitlines()
                              if f"/{name}" in line and "/tandem/lib/" not in line])

    def test_ranks_and_servers_run_from_it(self):
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(program_of("python-ranks.md"))
        environment = {"PYTHONPATH": self.root, "PATH": os.path.dirname(sys.executable)}
        for processes in (["--nproc=2"], ["--servers=1", "--workers=2"]):
            said = run(sys.executable, os.path.join(self.root, self.script("tandemrun")),
                       *processes, "train.py", env=environment, cwd=self.folder)
            self.assertRegex(said, r"loss \d")

    def script(self, name):
        return next(n for n in self.names if n.endswith(f".data/scripts/{name}"))

    @unittest.skipUnless(CLEAN, "the long form; --clean")
    def test_an_empty_environment_of_a_clean_debian(self):
        root = os.path.join(self.folder, "clean")
        run("mmdebstrap", "--variant=apt", "--include=python3,python3-venv,ca-certificates",
            "bookworm", root, timeout=400)
        for name in ("/etc/resolv.conf", "/etc/pip.conf"):
            if os.path.exists(name):
                shutil.copy(name, root + name)
        for name in ("/usr/local/share/ca-certificates", "/etc/ssl/certs"):
            os.makedirs(root + name, exist_ok=True)
            run("cp", "--archive", "--force", name + "/.", root + name)
        shutil.copy(self.path, root + "/opt")
        with open(root + "/opt/first.py", "w", encoding="utf-8") as file:
            file.write(program_of("python.md"))

        def inside(*command):
            return run("unshare", "--mount", "--pid", "--fork", "--kill-child",
                       f"--mount-proc={root}/proc", "chroot", root, "env", "-i",
                       "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", *command, timeout=300)

        inside("python3", "-m", "venv", "/opt/venv")
        begin = time.time()
        inside("/opt/venv/bin/pip", "install", "/opt/" + os.path.basename(self.path))
        said = inside("/opt/venv/bin/python", "/opt/first.py")
        seconds = time.time() - begin
        print(f"pip install and the first network: {seconds:.1f} s")
        self.assertLess(float(re.search(r"loss (\S+)", said)[1]), 0.5)
        self.assertIn("tandem ", inside("/opt/venv/bin/tandem", "version"))
        self.assertLess(seconds, 60)


if __name__ == "__main__":
    script.main()
