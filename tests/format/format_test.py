"""Every C++ source has the shape of .clang-format, as Debian 12's clang-format makes it."""

import subprocess
import unittest

import script


class FormatTest(unittest.TestCase):
    def test_clang_format_changes_nothing(self):
        out = subprocess.run(["git", "-C", script.SOURCE, "ls-files", "*.h", "*.cc", "*.cu"], capture_output=True,
                             text=True, check=True)
        files = out.stdout.split()
        self.assertGreater(len(files), 1000)
        run = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=script.SOURCE,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, "run clang-format -i on these:\n" + run.stderr[:4000])


if __name__ == "__main__":
    script.need_programs("clang-format", "git", package="clang-format and git")
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if "version 14." not in version:
        script.skip(f"{version.strip()}: another version shapes code differently (Debian 12's is 14)")
    script.main()
