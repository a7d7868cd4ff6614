"""Tests find deliberate mistakes in the parameter server (mutants.py), and find none in the product.

Without TANDEM_MUTANTS four mutants are tried; TANDEM_MUTANTS=all tries all, TANDEM_MUTANTS=a,b those."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import script

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutants  # pylint: disable=wrong-import-position

FEW = "no_dedup,answers_early,owns_too_soon,tokens_reused"


def chosen():
    names = os.environ.get("TANDEM_MUTANTS", FEW)
    return mutants.MUTANTS if names == "all" else [mutants.named(n) for n in names.split(",")]


def parts_of(path):
    """Paths of the sources that a source of the build directory includes (CMakeLists.txt: groups)."""
    with open(path, encoding="utf-8") as text:
        return re.findall(r'^#include "([^"]+\.cc)"', text.read(), re.MULTILINE)


def compile_commands():
    """path -> (folder, command, file), of the product's files."""
    commands = {}
    with open(os.path.join(script.BUILD, "compile_commands.json"), encoding="utf-8") as text:
        for c in json.load(text):
            command = (c["directory"], c["command"], c["file"])
            commands[os.path.relpath(c["file"], script.SOURCE)] = command
            if "_group_" in os.path.basename(c["file"]):
                commands.update((part, command) for part in parts_of(c["file"]))
    return commands


def link_command(program):
    out = subprocess.run(["ninja", "-C", script.BUILD, "-t", "commands", "tests/" + program],
                         capture_output=True, text=True, check=True).stdout
    return out.splitlines()[-1]


class Build:
    """Programs with a mutant, in a directory."""

    def __init__(self, mutant, directory):
        self._directory = directory
        self._objects = []
        commands = compile_commands()
        for path, text in mutants.edited(script.SOURCE, mutant.edits).items():
            copy = os.path.join(directory, os.path.basename(path))
            with open(copy, "w", encoding="utf-8") as file:
                file.write(text)
            self._compile(commands[path], copy)

    def _compile(self, command, copy):
        folder, line, original = command
        built = copy + ".o"
        line = re.sub(r" -o \S+", f" -o {built}", line.replace(original, copy))
        line = re.sub(r" -MF \S+", f" -MF {built}.d", line)
        subprocess.run(line, shell=True, cwd=folder, check=True)
        self._objects.append(built)

    def link(self, program):
        path = os.path.join(self._directory, program)
        line = link_command(program)
        here = f" -o tests/{program} "
        assert line.count(here) == 1, line
        # The libraries' own objects of these files are not taken, since nothing is missing any more. An
        # object of several files is taken for its other files; the mutant's definitions come first.
        line = line.replace(here, f" -o {path} -Wl,-z,muldefs {' '.join(self._objects)} ")
        subprocess.run(line, shell=True, cwd=script.BUILD, check=True)
        return path


def passes(program, run):
    # GTEST_OUTPUT is empty, so that the expected failures are not in the results of a test run.
    environment = {**os.environ, "GTEST_OUTPUT": "", "TANDEM_SIM_FIRST": str(run.first),
                   "TANDEM_SIM_SEEDS": str(run.seeds), "TANDEM_SIM_TAIL": "1",
                   "TANDEM_SOURCE_DIR": script.SOURCE}
    done = subprocess.run([program, f"--gtest_filter={run.filter}"], env=environment, capture_output=True,
                          text=True, timeout=600, check=False)
    ran = re.search(r"Running ([0-9]+) test", done.stdout)
    assert ran and int(ran[1]) > 0, f"{run} runs no test:\n{done.stdout}{done.stderr}"
    return done.returncode == 0


class MutantsTest(unittest.TestCase):
    def test_each_mutant_is_found_and_the_product_passes_the_same_runs(self):
        for mutant in chosen():
            with self.subTest(mutant.name), tempfile.TemporaryDirectory() as directory:
                build, linked = Build(mutant, directory), {}
                for run in mutant.runs:
                    product = os.path.join(script.BUILD, "tests", run.program)
                    self.assertTrue(passes(product, run), f"the product fails {run}")
                    if run.program not in linked:
                        linked[run.program] = build.link(run.program)
                    self.assertFalse(passes(linked[run.program], run),
                                     f"{run} does not find the mutant: {mutant.mistake}")

    def test_all_edits_fit(self):
        for mutant in mutants.MUTANTS:
            with self.subTest(mutant.name):
                mutants.edited(script.SOURCE, mutant.edits)

    def test_an_edit_that_does_not_fit_is_named(self):
        for old in ("no such text", "\n"):
            with self.assertRaisesRegex(mutants.DoesNotFit, "shard.cc: the text of a mutant's edit"):
                mutants.edited(script.SOURCE, [mutants.Edit("pserver/shard/shard.cc", old, "")])


if __name__ == "__main__":
    script.need_programs("ninja", package="ninja-build")
    for needed in sorted({run.program for m in chosen() for run in m.runs}):
        script.need_file(os.path.join(script.BUILD, "tests", needed), package="a build of " + needed)
    script.main()
