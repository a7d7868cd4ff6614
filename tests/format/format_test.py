"""Every C++ source has the shape of .clang-format, as Debian 12's clang-format makes it."""

import subprocess
import unittest

import script
import sources


class FormatTest(unittest.TestCase):
    def test_clang_format_changes_nothing(self):
        files = sources.files(script.SOURCE, ".h", ".cc", ".cu")
        self.assertGreater(len(files), 1000)
        run = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=script.SOURCE,
                             capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, "run clang-format -i on these:\n" + run.stderr[:4000])


if __name__ == "__main__":
    script.need_programs("clang-format", package="clang-format")
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
    if "version 14." not in version:
        script.skip(f"{version.strip()}: another version shapes code differently (Debian 12's is 14)")
    script.main()
