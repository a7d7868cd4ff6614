"""What every test written in Python has: where the build and the source are (--build, --source), a way
to say what it cannot do without, and its end.

By hand: PYTHONPATH=tests/support python3 tests/deploy/man_test.py --build=build --source=."""

import argparse
import importlib
import os
import shutil
import sys
import unittest

EXIT_SKIPPED = 77

_parser = argparse.ArgumentParser()
_parser.add_argument("--build", required=True)
_parser.add_argument("--source", default=os.path.join(os.path.dirname(__file__), "..", ".."))
_given, _rest = _parser.parse_known_args()
BUILD, SOURCE = os.path.abspath(_given.build), os.path.abspath(_given.source)
BIN = os.path.join(BUILD, "bin")


def skip(why):
    print(f"SKIPPED, nothing was tested: {why}")
    sys.exit(EXIT_SKIPPED)


def need_file(path, package):
    if not os.path.exists(path):
        skip(f"no {path} (Debian's package {package})")


def need_programs(*names, package):
    for name in names:
        if shutil.which(name) is None:
            skip(f"no {name} (Debian's package {package})")


def need_modules(*names, package):
    """Imports them, for they may be there and broken."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as missing:
            skip(f"{missing} (Debian's package {package})")


def main():
    unittest.main(argv=[sys.argv[0], *_rest])
