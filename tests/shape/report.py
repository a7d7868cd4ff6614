#!/usr/bin/env python3
"""Writes docs/internals/shape.md: the rooms of the product, their arrows, and the largest things in them.

usage: tests/shape/report.py [--out FILE]   (needs Debian's universal-ctags)"""

import argparse
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import shape

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
MODULES = ("common", "kernels/ops", "kernels", "collective", "pserver/client", "pserver", "trainer", "deploy")
INSTANTIATION = re.compile(r"_(base|avx2|avx512|amx)\.cc$")  # one source compiled for an instruction set


def room_of(path):
    return os.path.dirname(path)


def module_of(room):
    return max((m for m in MODULES if room == m or room.startswith(m + "/")), key=len)


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as text:
        return text.read()


def arrows(files):
    known, found = set(files), collections.defaultdict(set)
    for f in files:
        found[room_of(f)].update(
            room_of(header) for header in re.findall(r'^\s*#include "([^"]+)"', read(f), re.M)
            if header in known and room_of(header) != room_of(f))
    return found


def circles(graph):
    """The rooms that remain when rooms without an arrow to a remaining room are removed repeatedly."""
    left = set(graph)
    while True:
        leaves = {room for room in left if not graph[room] & left}
        if not leaves:
            return sorted(left)
        left -= leaves


def longest_path(graph, module):
    """Rooms on the longest chain of includes inside the module; REQUIRES: no circle."""
    depth = {}

    def walk(room):
        if room not in depth:
            depth[room] = 1 + max((walk(to) for to in graph[room] if module_of(to) == module), default=0)
        return depth[room]

    return max((walk(r) for r in graph if module_of(r) == module), default=0)


LIMITS = """
## Limits

`tests/shape/shape_test.py` limits the sizes of functions and classes:

| limit | value |
|---|---|
| lines of a function | 70 |
| public methods of a class | 25 |
| methods of a class | 45 |
| fields of a class | 25 |
| pairs of header and source with the code of one class | 1 |

`tests/shape/offenders.txt` lists the functions and classes above a limit, each with its figure. The
test fails if a figure rises, and also if an entry could be lower or is not needed.

`tests/shape/contracts_test.py` checks three more rules. Each has a list of exceptions beside it
that only gets better:

| rule | list |
|---|---|
| a free function is defined in the source with the stem of its header | `bodies.txt` |
| a function whose comment has `REQUIRES` checks something in its body | `requires.txt` |
| a module keeps its assertions per 1,000 lines without comments | `assertions.txt` |

`bodies.txt` also names the headers that are explicit tables of functions, such as the operators.
"""


def names_by_namespace(tags):
    kinds = {"class", "struct", "enum", "function", "prototype", "variable", "typedef", "alias"}
    return collections.Counter(
        t["scope"] for t in tags
        if t["path"].endswith(".h") and t["kind"] in kinds
        and re.fullmatch(r"tandem(::(?!__anon)\w+)?", t.get("scope", "")) and t.get("scopeKind") == "namespace")


def measures(files, tags, graph):
    functions, classes = shape.functions(tags), shape.classes(tags)
    text = "\n".join(map(read, files))
    checks = len(re.findall(r"\b(?:D?CHECK(?:_\w+)?|TD_REQUIRE|static_assert)\(", text))
    methods = max(classes, key=lambda c: c.public + c.private)
    fields = max(classes, key=lambda c: c.fields)
    return [
        ("rooms (folders with sources)", len(graph)),
        ("arrows between rooms", sum(map(len, graph.values()))),
        ("rooms in a circle of includes", len(circles(graph))),
        ("functions; lines of the longest", f"{len(functions)}; {max(f.lines for f in functions)}"),
        ("most methods of a class", f"{methods.public + methods.private} (`{methods.name}`)"),
        ("most fields of a class or struct", f"{fields.fields} (`{fields.name}`)"),
        ("assertions per 1,000 lines", f"{1000 * checks / text.count(chr(10)):.1f}"),
    ]


def page():
    files = shape.product_files(SOURCE)
    tags = shape.tags_of(SOURCE, files)
    graph = arrows(files)
    size, lines = collections.Counter(map(room_of, files)), collections.Counter()
    instances = collections.Counter(room_of(f) for f in files if INSTANTIATION.search(f))
    for f in files:
        lines[room_of(f)] += read(f).count("\n")
    date = subprocess.run(["git", "-C", SOURCE, "log", "-1", "--format=%cs"], capture_output=True, text=True,
                          check=True).stdout.strip()
    out = ["# The shape of the code", "",
           f"`tests/shape/report.py` wrote this page from the sources of {date}. `tests/tidy_test.cc` checks the",
           "arrows between the rooms, `tests/shape/shape_test.py` the sizes of functions and classes.", "",
           "| measure | figure |", "|---|---|"]
    out += [f"| {what} | {figure} |" for what, figure in measures(files, tags, graph)]
    out += ["", LIMITS.strip()]
    out += ["", "## Modules", "", "| module | rooms | longest path | largest room |", "|---|--:|--:|---|"]
    for module in MODULES:
        rooms = [r for r in graph if module_of(r) == module]
        largest = max(rooms, key=lambda r: size[r] - instances[r])
        note = f", {instances[largest]} of them for one instruction set" if instances[largest] else ""
        out.append(f"| `{module}` | {len(rooms)} | {longest_path(graph, module)} "
                   f"| `{largest}`: {size[largest]} files{note} |")
    out += ["", "## Rooms", "", "| room | files | lines | includes |", "|---|--:|--:|---|"]
    for room in sorted(graph):
        to = ", ".join(f"`{r}`" for r in sorted(graph[room])) or "nothing"
        out.append(f"| `{room}` | {size[room]} | {lines[room]} | {to} |")
    out += ["", "## Names at namespace scope in headers", "", "| namespace | names |", "|---|--:|"]
    out += [f"| `{name}` | {count} |" for name, count in sorted(names_by_namespace(tags).items())]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=os.path.join(SOURCE, "docs/internals/shape.md"))
    with open(parser.parse_args().out, "w", encoding="utf-8") as target:
        target.write(page())
