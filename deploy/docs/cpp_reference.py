#!/usr/bin/env python3
"""Writes the reference of the installed C++ headers as HTML, with Debian's doxygen. hooks.py calls it
when mkdocs builds the site.

  deploy/docs/cpp_reference.py DIR"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
# Annotations for the compiler, which say nothing to a reader.
MACROS = ("TD_GUARDED_BY(x)=", "TD_REQUIRES(x)=", "TD_EXCLUDES(x)=", "TD_NO_ANALYSIS=")


def headers():
    """The headers that `cmake --install` installs (deploy/cmake/TandemInstall.cmake)."""
    with open(os.path.join(ROOT, "deploy", "cmake", "TandemInstall.cmake"),
              encoding="utf-8") as file:
        names = re.search(r"foreach\(header ([^)]*)\)", file.read())[1].split()
    return [name for name in names if name.startswith(("common/", "pserver/"))]


def available():
    return shutil.which("doxygen") is not None


def settings(folder):
    return {
        "PROJECT_NAME": "Tandem", "PROJECT_BRIEF": '"The installed C++ headers"',
        "OUTPUT_DIRECTORY": f'"{folder}"', "HTML_OUTPUT": ".",
        "INPUT": " ".join(f'"{os.path.join(ROOT, name)}"' for name in headers()),
        "STRIP_FROM_PATH": f'"{ROOT}"', "FULL_PATH_NAMES": "YES",
        # The sources have plain comments: `//` before a declaration and after a field.
        "INPUT_FILTER": f'"{sys.executable} {os.path.join(HERE, "doxygen_filter.py")}"',
        "FILTER_SOURCE_FILES": "NO", "SOURCE_BROWSER": "NO", "VERBATIM_HEADERS": "NO",
        "EXTRACT_ALL": "YES", "EXTRACT_PRIVATE": "NO", "HIDE_UNDOC_MEMBERS": "NO",
        "JAVADOC_AUTOBRIEF": "YES", "QT_AUTOBRIEF": "YES", "MARKDOWN_SUPPORT": "NO",
        "AUTOLINK_SUPPORT": "YES", "SHOW_USED_FILES": "YES", "SHOW_NAMESPACES": "YES",
        "MACRO_EXPANSION": "YES", "EXPAND_ONLY_PREDEF": "YES",
        "PREDEFINED": " ".join(f'"{macro}"' for macro in MACROS),
        "EXCLUDE_SYMBOLS": "*Impl", "GENERATE_LATEX": "NO", "HAVE_DOT": "NO", "QUIET": "YES",
        "WARN_IF_UNDOCUMENTED": "NO", "WARN_IF_DOC_ERROR": "YES", "HTML_TIMESTAMP": "NO",
        "TIMESTAMP": "NO", "SEARCHENGINE": "NO",
    }


def write(folder):
    """Writes the pages into `folder`. Returns doxygen's warnings."""
    os.makedirs(folder, exist_ok=True)
    made = settings(folder)
    known = subprocess.run(["doxygen", "-s", "-g", "-"], capture_output=True, text=True,
                           check=True).stdout
    names = set(re.findall(r"^(\w+) *=", known, re.M))
    with tempfile.NamedTemporaryFile("w", suffix=".doxyfile", encoding="utf-8") as file:
        file.write("".join(f"{key} = {value}\n" for key, value in made.items() if key in names))
        file.flush()
        done = subprocess.run(["doxygen", file.name], capture_output=True, text=True, check=True)
    return done.stderr.strip()


def main():
    if not available():
        sys.exit("doxygen is not installed (Debian's package doxygen)")
    print(write(os.path.abspath(sys.argv[1])), file=sys.stderr)


if __name__ == "__main__":
    main()
