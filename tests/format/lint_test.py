"""deploy/lint.sh: it finds an error, it looks at the sources that changed, and it keeps its time."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import script

GOOD = "int f(int a) { return a; }\n"
BAD = """#include <string>
#include <utility>
int f(std::string s) {
  const std::string t = std::move(s);
  return static_cast<int>(s.size() + t.size());
}
"""


class Lint(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-lint-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("deploy/lint.sh", ".clang-tidy"):
            os.makedirs(os.path.dirname(os.path.join(self.folder, name)), exist_ok=True)
            shutil.copy2(os.path.join(script.SOURCE, name), os.path.join(self.folder, name))
        os.makedirs(os.path.join(self.folder, "build"))
        os.makedirs(os.path.join(self.folder, "common"))
        sources = [os.path.join(self.folder, "common", f"{name}.cc") for name in ("a", "b")]
        with open(os.path.join(self.folder, "build", "compile_commands.json"), "w",
                  encoding="utf-8") as file:
            json.dump([{"directory": self.folder, "file": path,
                        "command": f"c++ -std=c++20 -c {path}"} for path in sources], file,
                      indent=2)
        self.write(a=GOOD, b=GOOD)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def write(self, **sources):
        for name, text in sources.items():
            with open(os.path.join(self.folder, "common", f"{name}.cc"), "w",
                      encoding="utf-8") as file:
                file.write(text)

    def git(self, *args):
        subprocess.run(["git", "-C", self.folder, "-c", "user.name=t", "-c", "user.email=t@t",
                        *args], check=True, capture_output=True)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=x")

    def lint(self, *args, path=None):
        environment = dict(os.environ) if path is None else dict(os.environ, PATH=path)
        done = subprocess.run([os.path.join(self.folder, "deploy", "lint.sh"), *args],
                              capture_output=True, text=True, check=False, env=environment,
                              timeout=120)
        return done.returncode, done.stdout + done.stderr

    def test_an_error_is_found(self):
        self.write(a=BAD)
        code, text = self.lint("common/a.cc", "common/b.cc")
        self.assertEqual(code, 1, text)
        self.assertIn("'s' used after it was moved", text)
        self.assertIn("1 clean, 1 with findings, 0 left out", text)

    def test_it_looks_at_what_differs_from_the_main_branch(self):
        self.git("checkout", "--quiet", "-b", "work")
        self.write(a=BAD)
        self.commit()
        self.write(b=GOOD + "// more\n")
        self.commit()
        code, text = self.lint()
        self.assertEqual(code, 1, text)
        self.assertIn("1 clean, 1 with findings", text)

    def test_on_the_main_branch_it_looks_at_the_last_commit(self):
        self.write(a=BAD)
        self.commit()
        self.write(b=GOOD + "// more\n")
        self.commit()
        code, text = self.lint()
        self.assertEqual((code, "1 clean, 0 with findings" in text), (0, True), text)

    def test_all_and_the_limit_of_time(self):
        code, text = self.lint("--all")
        self.assertEqual((code, "2 clean, 0 with findings, 0 left out" in text), (0, True), text)
        os.utime(os.path.join(self.folder, "common", "a.cc"))
        slow = os.path.join(self.folder, "slow")
        os.makedirs(slow)
        with open(os.path.join(slow, "clang-tidy"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nsleep 2\n")
        os.chmod(os.path.join(slow, "clang-tidy"), 0o755)
        os.environ["TANDEM_JOBS"] = "1"
        self.addCleanup(os.environ.pop, "TANDEM_JOBS")
        code, text = self.lint("--seconds=1", "common/a.cc", "common/b.cc",
                               path=slow + ":" + os.environ["PATH"])
        self.assertEqual((code, "1 clean, 0 with findings, 1 left out after 1 s" in text),
                         (0, True), text)

    def test_without_clang_tidy_it_says_so(self):
        names = os.path.join(self.folder, "names")
        os.makedirs(names)
        for program in ("bash", "dirname"):
            os.symlink(shutil.which(program), os.path.join(names, program))
        code, text = self.lint(path=names)
        self.assertEqual((code, "SKIPPED: no clang-tidy" in text), (0, True), text)


if __name__ == "__main__":
    script.need_programs("clang-tidy", package="clang-tidy")
    script.main()
