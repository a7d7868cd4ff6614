#!/usr/bin/env python3
"""Makes a wheel of the Python packages `tandem` and `tandem_pserver` and of the programs, with the
shared libraries that they need.

usage: deploy/wheel.py [--build=build] [--output=DIR]

The wheel is for Debian's Python 3.11 and glibc 2.36 or later. It has no CUDA module. It bundles all
shared libraries but those of the C and C++ runtime. The licence of each bundled library is in the
wheel. Two runs with one build and one SOURCE_DATE_EPOCH give the same bytes."""

import argparse
import base64
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zipfile

PROGRAMS = ("tandem", "tandemrun", "tandem-pserver", "tandem-trainer")
# Each Linux system that runs the wheel has these.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so|"
                    r"libstdc\+\+|libgcc_s)")
TAG = "cp311-cp311-manylinux_2_36_x86_64"


def fail(text, hint):
    """Ends the program with an error."""
    sys.stderr.write(f"wheel: error: {text}\nhint: {hint}\n")
    sys.exit(1)


def output_of(*command):
    """Runs a command and returns its output."""
    if shutil.which(command[0]) is None:
        fail(f"there is no {command[0]}", "./deploy/setup.sh binutils patchelf")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)} failed: {done.stderr.strip()}", "the line above has the reason")
    return done.stdout


def libraries(files):
    """Returns {name: path} of all shared libraries that the files need, without the system's."""
    found = {}
    for file in files:
        for line in output_of("ldd", file).splitlines():
            match = re.match(r"\s*(\S+) => (\S+)", line)
            if match is None or SYSTEM.match(match[1]):
                continue
            if match[2] == "not":
                fail(f"{file} needs {match[1]}, which is not installed", "run deploy/setup.sh")
            found[match[1]] = os.path.realpath(match[2])
    return found


def package_of(path):
    """Returns the Debian package of a library."""
    for form in (path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", form], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    fail(f"{path} belongs to no Debian package", "build with Debian's libraries")


def bundled(path, work, directory):
    """Returns the bytes of a library or a program without debug symbols. It finds its libraries in
    `directory`, a path relative to the file. A DT_RPATH also serves the libraries of libraries."""
    copy = os.path.join(work, "bundled")
    output_of("strip", "--strip-unneeded", "-o", copy, path)
    output_of("patchelf", "--force-rpath", "--set-rpath", os.path.join("$ORIGIN", directory), copy)
    return read(copy)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Wheel:
    """The files of a wheel, which write() sorts and lists in RECORD (PEP 427)."""

    def __init__(self, version):
        self.info = f"tandem-{version}.dist-info"
        self.data = f"tandem-{version}.data"
        self.files = {}

    def add(self, name, content, executable=False):
        self.files[name] = (content, executable)

    def write(self, path):
        """Writes the file."""
        when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 315532800)), 315532800))[:6]
        record = []
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, (content, executable) in sorted(self.files.items()):
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
                record.append(f"{name},sha256={digest.decode()},{len(content)}")
                self._put(archive, name, content, executable, when)
            lines = "\n".join([*record, f"{self.info}/RECORD,,", ""])
            self._put(archive, f"{self.info}/RECORD", lines.encode(), False, when)

    @staticmethod
    def _put(archive, name, content, executable, when):
        entry = zipfile.ZipInfo(name, when)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        archive.writestr(entry, content)


def add_python(wheel, build):
    """Adds the Python files of both packages."""
    top = os.path.join(build, "python")
    for package in ("tandem", "tandem_pserver"):
        for folder, _, names in os.walk(os.path.join(top, package)):
            for name in names:
                path = os.path.join(folder, name)
                if "__pycache__" not in path and not name.endswith(".so"):
                    wheel.add(os.path.relpath(path, top), read(path))


def add_metadata(wheel, source, version):
    """Adds METADATA, WHEEL and the licence of Tandem."""
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    wheel.add(f"{wheel.info}/METADATA", f"""Metadata-Version: 2.1
Name: tandem
Version: {version}
Summary: Training with parameter servers and collectives: networks, jobs and clients
License: Apache-2.0
Requires-Python: >=3.11,<3.12
Requires-Dist: numpy>=1.21
Requires-Dist: grpcio>=1.51; extra == "pserver"
Requires-Dist: protobuf>=3.21; extra == "pserver"
Provides-Extra: pserver
Description-Content-Type: text/markdown

{readme}""".encode())
    wheel.add(f"{wheel.info}/WHEEL", f"""Wheel-Version: 1.0
Generator: tandem deploy/wheel.py
Root-Is-Purelib: false
Tag: {TAG}
""".encode())
    for name in ("LICENSE", "NOTICE"):
        wheel.add(f"{wheel.info}/licenses/{name}", read(os.path.join(source, name)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
    parser.add_argument("--build", default=os.path.join(source, "build"))
    parser.add_argument("--output", default=".")
    given = parser.parse_args()
    modules = glob.glob(os.path.join(given.build, "python/tandem/_core.cpython-311-*.so"))
    programs = [os.path.join(given.build, "bin", name) for name in PROGRAMS]
    missing = [path for path in programs if not os.path.exists(path)]
    if len(modules) != 1 or missing:
        fail(f"{given.build} has no {missing[0] if missing else 'module tandem._core'}",
             "./deploy/build.sh --target tandem_programs && "
             "./deploy/build.sh --target tandem_core")
    with open(os.path.join(source, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(tandem VERSION ([\d.]+)", file.read())[1]

    os.makedirs(given.output, exist_ok=True)
    wheel = Wheel(version)
    add_python(wheel, given.build)
    add_metadata(wheel, source, version)
    wheel.add(f"tandem/{os.path.basename(modules[0])}", bundled(modules[0], given.output, "lib"), True)
    for name, path in zip(PROGRAMS, programs):
        wheel.add(f"tandem/bin/{name}", bundled(path, given.output, "../lib"), True)
        script = f"#!python\nfrom tandem.programs import run\n\nrun({name!r})\n"
        wheel.add(f"{wheel.data}/scripts/{name}", script.encode(), True)
    for name, path in sorted(libraries([*modules, *programs]).items()):
        wheel.add(f"tandem/lib/{name}", bundled(path, given.output, ""), True)
        package = package_of(path)
        wheel.add(f"{wheel.info}/licenses/{package}", read(f"/usr/share/doc/{package}/copyright"))
    os.remove(os.path.join(given.output, "bundled"))
    made = os.path.join(given.output, f"tandem-{version}-{TAG}.whl")
    wheel.write(made)
    print(f"{made}: {os.path.getsize(made) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
