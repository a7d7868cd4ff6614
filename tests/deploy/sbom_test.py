"""deploy/sbom.py: the packages of the programs' libraries are listed, with versions and licences, and
the same programs give the same bytes."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import script

script.need_programs("dpkg-query", "ldd", package="dpkg and libc-bin")

PROGRAMS = [os.path.join(script.BIN, name) for name in ("tandem-pserver", "tandem-trainer")]


def bill(*programs):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bill.json")
        done = subprocess.run(
            [sys.executable, os.path.join(script.SOURCE, "deploy", "sbom.py"), "--version=1.2.3",
             f"--output={path}", *programs],
            capture_output=True, text=True, check=False,
            env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"))
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        with open(path, encoding="utf-8") as file:
            return file.read()


class Sbom(unittest.TestCase):
    def test_components(self):
        document = json.loads(bill(*PROGRAMS))
        self.assertEqual((document["bomFormat"], document["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(document["metadata"]["component"]["version"], "1.2.3")
        self.assertEqual(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z")
        by_name = {c["name"]: c for c in document["components"]}
        for name in ("libc6", "libgrpc++1.51", "librocksdb7.8", "libssl3"):
            installed = subprocess.run(["dpkg-query", "--show", "--showformat=${Version}", name],
                                       capture_output=True, text=True, check=True).stdout
            self.assertEqual(by_name[name]["version"], installed)
            self.assertIn(f"@{installed}", by_name[name]["purl"])
        self.assertIn("Apache-2.0", str(by_name["libgrpc++1.51"]["licenses"]))
        self.assertEqual(set(document["dependencies"][0]["dependsOn"]),
                         {c["bom-ref"] for c in document["components"]})

    def test_same_programs_same_bytes(self):
        self.assertEqual(bill(*PROGRAMS), bill(*reversed(PROGRAMS)))

    def test_a_program_that_cannot_be_read(self):
        with self.assertRaisesRegex(AssertionError, "ldd"):
            bill("/no/such/program")


if __name__ == "__main__":
    script.main()
