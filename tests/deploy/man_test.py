"""The manual pages: they render without a warning, and have every command and flag that the programs
have. Needs man (Debian's man-db and groff-base); mandoc's lint runs where it is installed."""

import os
import re
import shutil
import subprocess
import unittest

import script

script.need_programs("man", package="man-db")

PAGES = {"tandem": 1, "tandemrun": 1, "tandem-pserver": 8, "tandem-trainer": 8}
FLAG = re.compile(r"^  (--[a-z_0-9]+)", re.MULTILINE)


def run(*command):
    environment = dict(os.environ, MANWIDTH="200", LC_ALL="C.UTF-8", MAN_KEEP_FORMATTING="")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def page_of(name):
    return os.path.join(script.BUILD, "man", f"{name}.{PAGES[name]}")


def said(program, *args):
    return run(os.path.join(script.BIN, program), *args, "--help").stdout


class Man(unittest.TestCase):
    def rendered(self, name):
        done = run("man", "--warnings", "-l", page_of(name))
        self.assertEqual(done.stderr, "", name)
        return done.stdout

    def test_they_have_every_flag(self):
        for name in PAGES:
            with self.subTest(page=name):
                text = self.rendered(name)
                self.assertRegex(text, rf"NAME\n +{name} - [a-z]")
                for part in ("SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"):
                    self.assertRegex(text, rf"(?m)^{part}\n +\S", part)
                self.assertRegex(text, r"(?m)^ +201 +[a-z]")
                self.assertRegex(text, r"(?m)^ +TANDEM_SECRET_FILE\b")
                flags = FLAG.findall(said(name))
                self.assertTrue(flags or name == "tandem")
                for flag in flags:
                    self.assertRegex(text, rf"(?m)^ +{flag}\b")

    def test_tandem_has_every_command(self):
        text = self.rendered("tandem")
        commands = re.findall(r"^  ([a-z]+) ", said("tandem"), re.MULTILINE)
        self.assertGreater(len(commands), 15)
        for command in commands:
            if command in ("help", "version"):
                continue
            self.assertRegex(text, rf"(?m)^   tandem {command}$")
            part = re.search(rf"(?ms)^   tandem {command}$(.*?)^(   tandem [a-z]+$|EXIT)", text)
            for flag in FLAG.findall(said("tandem", command)):
                self.assertIn(f"       {flag}", part[1], command)

    def test_words_stand_as_they_were_written(self):
        text = self.rendered("tandem-pserver")
        self.assertIn("tandem-pserver --listen=127.0.0.1:7000 --job=NAME", text)
        self.assertIn("The job's secret is read", text)

    @unittest.skipIf(shutil.which("mandoc") is None, "mandoc is not installed")
    def test_mandoc_has_nothing_to_say(self):
        for name in PAGES:
            done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", page_of(name)],
                                  capture_output=True, text=True, check=False)
            said_lines = (done.stdout + done.stderr).splitlines()
            # Pages have a version instead of a date.
            self.assertEqual([line for line in said_lines if "missing date" not in line], [], name)


if __name__ == "__main__":
    script.main()
