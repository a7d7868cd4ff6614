"""Contracts of the product's C++: where bodies stand, which preconditions are checked, and how many
assertions there are. Used by contracts_test.py."""

import collections
import os
import re

import shape

MODULES = ("collective", "common", "deploy", "kernels", "pserver", "trainer")
ASSERTION = re.compile(r"\b(?:D?CHECK(?:_\w+)?|TD_REQUIRE|static_assert)\s*\(")
CHECKED = re.compile(r"\b(?:D?CHECK(?:_\w+)?|TD_REQUIRE)\s*\(")
REQUIRES = re.compile(r"//.*(?<!TD_)\bREQUIRES\b")
COMMENT = re.compile(r"//.*")


def read(source, path):
    with open(os.path.join(source, path), encoding="utf-8") as text:
        return text.read().splitlines()


def _is_free(tag):
    """Whether the function is in namespaces only, which have names of lower case, and is not local."""
    parts = tag.get("scope", "").split("::")
    return not any(p.startswith("__anon") for p in parts) and all(p.islower() for p in parts)


def misplaced(tags):
    """(header, source) -> names of free functions that the header declares and the source defines,
    though the two do not share a stem."""
    declared = collections.defaultdict(set)
    for t in tags:
        if t["kind"] == "prototype" and t["path"].endswith(".h") and _is_free(t):
            declared[t.get("scope", ""), t["name"]].add(t["path"])
    found = collections.defaultdict(set)
    for t in tags:
        if t["kind"] != "function" or t["path"].endswith(".h") or not _is_free(t):
            continue
        headers = declared.get((t.get("scope", ""), t["name"]), ())
        if headers and all(shape.stem(h) != shape.stem(t["path"]) for h in headers):
            found[sorted(headers)[0], t["path"]].add(t["name"])
    return found


def unchecked(source, tags):
    """Functions in headers whose comment has REQUIRES while no body of that name checks anything."""
    bodies, declared = collections.defaultdict(list), collections.defaultdict(dict)
    for t in tags:
        if t["kind"] == "function" and "end" in t:
            bodies[t["name"]].append((t["path"], t["line"], t["end"]))
        if t["kind"] in ("prototype", "function") and t["path"].endswith(".h"):
            declared[t["path"]].setdefault(t["line"], t["name"])
    text = {path: read(source, path) for path in {t["path"] for t in tags}}

    def is_checked(name):
        return any(CHECKED.search(COMMENT.sub("", line))
                   for path, begin, end in bodies[name] for line in text[path][begin - 1:end])

    found = []
    for path, names in sorted(declared.items()):
        lines = text[path]
        for number, line in enumerate(lines, 1):
            if not REQUIRES.search(line):
                continue
            at = number
            while at <= len(lines) and lines[at - 1].lstrip().startswith("//"):
                at += 1
            if at in names and not is_checked(names[at]):
                found.append((path, number, names[at]))
    return found


def assertions(source, files):
    """Module -> (assertions, lines that are not comments)."""
    sums = collections.defaultdict(lambda: [0, 0])
    for path in files:
        lines = read(source, path)
        module = sums[path.split("/")[0]]
        module[0] += sum(len(ASSERTION.findall(COMMENT.sub("", line))) for line in lines)
        module[1] += sum(not line.lstrip().startswith("//") for line in lines)
    return {name: tuple(s) for name, s in sums.items()}
