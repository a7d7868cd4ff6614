"""The target that deploy/quickstart.sh builds gives all that `cmake --install` takes from the build folder,
but the CUDA module; and an install without that module says so and succeeds."""

import os
import re
import subprocess
import tempfile
import unittest

import script

script.need_programs("ninja", package="ninja-build")
MODULE = os.path.join(script.BUILD, "lib", "libtandem_cuda.so")
with open(os.path.join(script.BUILD, "cmake_install.cmake"), encoding="utf-8") as rules:
    RULES = rules.read()


def ninja(*tool):
    return subprocess.run(["ninja", "-C", script.BUILD, "-t", *tool], text=True, check=True,
                          stdout=subprocess.PIPE, timeout=120).stdout


class Quickstart(unittest.TestCase):
    def unmade(self, paths):
        """Those of which no command of the target that quickstart.sh builds speaks."""
        with open(os.path.join(script.SOURCE, "deploy", "quickstart.sh"), encoding="utf-8") as file:
            target = re.search(r"--target (\S+)", file.read()).group(1)
        words = set(re.findall(r"[^\s\"'<>=;&]+", ninja("commands", target)))
        return sorted(path for path in paths
                      if path not in words and os.path.relpath(path, script.BUILD) not in words)

    def test_builds_what_is_installed(self):
        outputs = {os.path.join(script.BUILD, line.split(": ")[0])
                   for line in ninja("targets", "all").splitlines()}
        taken = set(re.findall(f'"({re.escape(script.BUILD)}/[^"]+)"', RULES)) & outputs
        self.assertIn(os.path.join(script.BIN, "tandemrun"), taken)
        self.assertIn(os.path.join(script.BUILD, "lib", "libtandem_base.a"), taken)
        self.assertEqual(self.unmade(taken - {MODULE}), [])

    def test_builds_the_python_client(self):
        package = os.path.join(script.BUILD, "python", "tandem_pserver")
        source = os.path.join(script.SOURCE, "pserver", "client", "python", "tandem_pserver")
        wanted = {os.path.join(package, name) for name in os.listdir(source) if name.endswith(".py")}
        wanted.add(os.path.join(package, "pserver.desc"))
        self.assertEqual(self.unmade(wanted), [])

    def test_installs_without_the_module(self):
        if "libtandem_cuda.so" not in RULES:
            self.skipTest("this build has no CUDA module")
        with tempfile.TemporaryDirectory() as folder:
            absent = os.path.join(folder, "build", "lib", "libtandem_cuda.so")
            copy = os.path.join(folder, "install.cmake")
            with open(copy, "w", encoding="utf-8") as file:
                file.write(RULES.replace(MODULE, absent))
            done = subprocess.run(
                ["cmake", "-DCMAKE_INSTALL_COMPONENT=cuda", f"-DCMAKE_INSTALL_PREFIX={folder}/to",
                 "-P", copy], text=True, check=False, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, cwd=folder, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("Not built, so not installed: libtandem_cuda.so", done.stdout)
        self.assertIn("./deploy/build.sh --target tandem_cuda", done.stdout)


if __name__ == "__main__":
    script.main()
