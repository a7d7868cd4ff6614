"""Writes the golden files of this version: tests/compatibility/VERSION/STATE.tar.xz, expected.json, and
the descriptors of the wire formats. Run it once for each release, and commit the files.

PYTHONPATH=tests/support:tests/python python3 tests/compatibility/make.py --build=build VERSION"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile

import script
import states

PROTO = os.path.join(script.SOURCE, "proto")


def pack(folder, path):
    with tarfile.open(path, "w:xz") as archive:
        for name in sorted(os.listdir(folder)):
            archive.add(os.path.join(folder, name), arcname=name)


def main():
    version = sys.argv[-1]
    out = os.path.join(script.SOURCE, "tests", "compatibility", version)
    os.makedirs(out, exist_ok=True)
    expected = {}
    for name, state in states.STATES.items():
        with tempfile.TemporaryDirectory(prefix="tandem-golden-") as folder:
            expected[name] = state().make(folder)
            pack(folder, os.path.join(out, name + ".tar.xz"))
        print(f"{name}: {os.path.getsize(os.path.join(out, name + '.tar.xz'))} bytes")
    with open(os.path.join(out, "expected.json"), "w") as file:
        json.dump(expected, file, indent=1)
        file.write("\n")
    files = sorted(f for f in os.listdir(PROTO) if f.endswith(".proto"))
    subprocess.run(["protoc", "-I", script.SOURCE, "--include_imports",
                    "--descriptor_set_out=" + os.path.join(out, "wire.desc"),
                    *["proto/" + f for f in files]], check=True, cwd=script.SOURCE)


if __name__ == "__main__":
    main()
