#!/usr/bin/env python3
"""Doxygen's input filter: prints a header with its plain comments as doxygen's. A comment of whole
lines documents the declaration after it, a comment at the end of a line the declaration before it.
The first comment of a file documents the file.

  doxygen_filter.py HEADER"""

import re
import sys


def doxygen(lines):
    head = True  # in the first comment
    out = []
    for number, line in enumerate(lines):
        if head and not line.startswith("//"):
            head = False
        whole = re.match(r"( *)//( .*|)$", line)
        if whole and re.match(r" -{4}|\.\.\.", whole[2]):
            line = ""  # the title of a section
        elif whole:
            mark = "//!" if head else "///"
            line = f"{whole[1]}{mark}{escape(whole[2])}"
            out += ["//! @file"] if number == 0 else []
        elif match := re.match(r"(.*?[;,{}()\w])  // (.*)$", line):
            line = f"{match[1]}  ///< {escape(match[2])}"
        out.append(line)
    return out


def escape(text):
    """Text of which doxygen interprets nothing: neither commands nor HTML."""
    return re.sub(r"([\\@<>#%])", r"\\\1", text)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(doxygen(file.read().splitlines())))


if __name__ == "__main__":
    main()
