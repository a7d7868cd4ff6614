"""Two builds of one source give the same bytes, in whatever directory and with or without ccache. The
build of this test is the first one. The second compiles a room and a program in another directory
without ccache.

The long form compares all programs (about an hour):
  PYTHONPATH=tests/support python3 tests/install/same_bytes_test.py --build=build --source=. --all"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ALL = "--all" in sys.argv
sys.argv = [word for word in sys.argv if word != "--all"]  # before script reads the others

import script  # noqa: E402
import sources  # noqa: E402

PROGRAMS = ("tandem", "tandemrun", "tandem-pserver", "tandem-trainer")
ROOM = "common/base"
# Targets of the second build, and the files to compare.
TARGETS = ["tandem_programs"] if ALL else ["tandem_base", "metrics_test"]
FILES = [f"bin/{name}" for name in PROGRAMS] if ALL else ["lib/libtandem_base.a",
                                                         "tests/metrics_test"]


def cache(name):
    """A value of the first build's CMakeCache.txt."""
    with open(os.path.join(script.BUILD, "CMakeCache.txt"), encoding="utf-8") as file:
        found = re.search(rf"^{name}:\w+=(.*)$", file.read(), re.M)
    return found[1] if found else ""


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


class SameBytes(unittest.TestCase):
    def test_no_source_asks_for_the_time(self):
        wrong = []
        for path in sources.files(script.SOURCE, ".h", ".cc", ".cu", ".in", ".proto"):
            if path.startswith("tests/"):
                continue
            if re.search(rb"__(?:DATE|TIME|TIMESTAMP)__", read(script.SOURCE, path)):
                wrong.append(path)
        self.assertEqual(wrong, [])

    def test_no_program_has_a_path_of_the_build(self):
        places = [os.fsencode(script.SOURCE) + b"/", os.fsencode(script.BUILD) + b"/"]
        count = 0
        for name in PROGRAMS:
            path = os.path.join(script.BIN, name)
            if not os.path.exists(path):
                continue  # not built
            count += 1
            for place in places:
                self.assertNotIn(place, read(path), name)
        self.assertGreater(count, 0)

    def test_another_directory_gives_the_same_bytes(self):
        with tempfile.TemporaryDirectory(prefix="tandem-same-bytes-") as folder:
            source = os.path.join(folder, "a", "longer", "path")
            for path in sources.files(script.SOURCE, ""):
                os.makedirs(os.path.dirname(os.path.join(source, path)), exist_ok=True)
                shutil.copy2(os.path.join(script.SOURCE, path), os.path.join(source, path))
            # The position of the build directory in the tree is part of the bytes.
            build = os.path.join(source, os.path.relpath(script.BUILD, script.SOURCE))
            self.run_quietly(
                "cmake", "-G", "Ninja", "-S", source, "-B", build, "-DTANDEM_CCACHE:STRING=",
                f"-DCMAKE_BUILD_TYPE={cache('CMAKE_BUILD_TYPE')}", "-DTANDEM_CUDA=OFF",
                f"-DTANDEM_TESTS={'OFF' if ALL else 'ON'}")
            with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
                self.assertNotIn("ccache", file.read())
            self.run_quietly("cmake", "--build", build, "--target", *TARGETS)
            objects = glob.glob(os.path.join(build, ROOM, "**", "*.o"), recursive=True)
            self.assertGreaterEqual(len(objects), 1)  # groups of sources
            names = [os.path.relpath(path, build) for path in objects] + FILES
            differ = [name for name in names
                      if read(build, name) != read(script.BUILD, name)]
            self.assertEqual(differ, [])

    def run_quietly(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])


if __name__ == "__main__":
    if cache("TANDEM_SANITIZE") or cache("CMAKE_BUILD_TYPE") != "Release":
        script.skip("only a release build is compared")
    if os.path.relpath(script.BUILD, script.SOURCE).startswith(".."):
        script.skip("the build is not below the source")
    script.main()
