"""A small clone of the repository for tests of run.sh: tests/bench and its pages, a cmake that
"builds" a tandem-figures in Python, and values that each commit chooses. It measures nothing."""

import json
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
PAGES = os.path.join("docs", "project", "benchmarks")
VALUES = "values.json"  # in the sources: {field: values that the runs report in turn}
BROKEN = "broken"  # in the sources: the build fails

CMAKE = r'''#!/usr/bin/env python3
import os, shutil, sys
args = sys.argv[1:]
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write("cmake " + " ".join(args) + "\n")
if args[0] == "-S":
    source, build = args[1], args[3]
    os.makedirs(build, exist_ok=True)
    with open(os.path.join(build, "CMakeCache.txt"), "w") as cache:
        cache.write("configured\n")
else:
    build = args[1]
    source = os.path.dirname(build)
    if os.path.exists(os.path.join(source, "broken")):
        sys.exit("broken.cc:1: error")
    os.makedirs(os.path.join(build, "bench"), exist_ok=True)
    program = os.path.join(build, "bench", "tandem-figures")
    shutil.copy(os.path.join(os.path.dirname(__file__), "figures"), program)
    shutil.copy(os.path.join(source, "values.json"), os.path.join(build, "bench"))
'''

FIGURES = r'''#!/usr/bin/env python3
import json, os, sys
here = os.path.dirname(__file__)
with open(os.environ["FAKE_LOG"], "a") as log:
    log.write("run " + __file__ + " " + " ".join(sys.argv[1:]) + "\n")
values = json.load(open(os.path.join(here, "values.json")))
count = os.path.join(here, "count")
turn = int(open(count).read()) if os.path.exists(count) else 0
open(count, "w").write(str(turn + 1))
print(json.dumps({field: each[turn % len(each)] for field, each in values.items()}))
'''

CACHE = """CMAKE_BUILD_TYPE:STRING=Release
CMAKE_GENERATOR:INTERNAL=Ninja
TANDEM_UNITY:BOOL=ON
TANDEM_PYTHON3:FILEPATH=/usr/bin/python3
"""


class FakeClone:
    """A git repository in a temporary directory, which `close` removes."""

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="tandem-bench-test-")
        self.root = os.path.join(self.top, "tandem")
        self.build = os.path.join(self.root, "build")
        self.log = os.path.join(self.top, "log")
        shutil.copytree(HERE, os.path.join(self.root, "tests", "bench"),
                        ignore=shutil.ignore_patterns("*.cc", "*.h", "__pycache__"))
        os.makedirs(os.path.join(self.root, PAGES, "results"))
        os.makedirs(self.build)
        self._program("cmake", CMAKE)
        self._program("figures", FIGURES)
        self.write("build/CMakeCache.txt", CACHE)
        self.write(".gitignore", "/build*/\n__pycache__/\n")
        self.git("init", "--quiet")

    def close(self):
        shutil.rmtree(self.top)

    def _program(self, name, text):
        path = os.path.join(self.top, "bin", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *args):
        done = subprocess.run(["git", "-C", self.root, "-c", "user.name=t", "-c", "user.email=t@t",
                               "-c", "commit.gpgsign=false", *args], env=self.environment(),
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, **values):
        """Commits all files, with these values of the fields. Returns the commit."""
        self.write(VALUES, json.dumps(values))
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", "values")
        return self.git("rev-parse", "--short=12", "HEAD")

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TANDEM_", "GIT_"))}
        return {**kept, "PATH": f"{self.top}/bin:{os.environ['PATH']}", "FAKE_LOG": self.log,
                "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *args):
        """run.sh with these arguments."""
        return self._run([os.path.join(self.root, "tests", "bench", "run.sh"), *args])

    def run_driver(self, busy_at_start, others_share, *args):
        """driver.py on a machine where other processes use these shares."""
        code = (f"import sys, machine\nmachine.gate = lambda wait_s: {busy_at_start}\n"
                f"machine.OtherWork.share = lambda self: {others_share}\n"
                "import driver\nsys.exit(driver.main())")
        return self._run(["python3", "-c", code, *args], os.path.join(self.root, "tests", "bench"))

    def _run(self, command, folder=None):
        return subprocess.run(command, cwd=folder, env=self.environment(), capture_output=True,
                              text=True, check=False, timeout=120)

    def calls(self, beginning):
        """The calls of the fake programs that begin with this text, in order."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="utf-8") as log:
            return [line.rstrip("\n") for line in log if line.startswith(beginning)]

    def results(self):
        """{name of a file: text} of the recorded results and their page."""
        found = {}
        for folder in (PAGES, os.path.join(PAGES, "results")):
            for entry in os.scandir(os.path.join(self.root, folder)):
                if entry.is_file():
                    with open(entry.path, encoding="utf-8") as file:
                        found[entry.name] = file.read()
        return found
