"""The shapes of the product's C++: functions, classes and structs, as universal-ctags sees them.

Used by shape_test.py, which compares them with the limits, and by report.py, which writes them down."""

import collections
import json
import re
import subprocess

import sources

SUFFIXES = (".h", ".cc", ".cu")
FOLDERS = ("common/", "kernels/", "collective/", "pserver/", "trainer/", "deploy/")
# ctags mistakes an annotation for a name; "+" makes it skip the arguments too.
ANNOTATIONS = ("TD_GUARDED_BY+,TD_REQUIRES+,TD_EXCLUDES+,TD_ACQUIRE+,TD_RELEASE+,TD_CAPABILITY+,"
               "TD_SCOPED_CAPABILITY,TD_NO_ANALYSIS")

Function = collections.namedtuple("Function", "path line name lines")
Class = collections.namedtuple("Class", "path line name public private fields body_files")


def product_files(source):
    return [f for f in sources.files(source, *SUFFIXES)
            if f.startswith(FOLDERS) and not f.startswith("deploy/examples/")]


def tags_of(source, files):
    out = subprocess.run(
        ["ctags", "--output-format=json", "--fields=+neaKStZ", "--kinds-C++=+p",
         "--langmap=C++:+.cu.h", "--extras=-F", "-I", ANNOTATIONS, "-L", "-", "-f", "-"],
        input="\n".join(files), capture_output=True, text=True, cwd=source, check=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def functions(tags):
    return [Function(t["path"], t["line"], t["name"], t["end"] - t["line"] + 1)
            for t in tags if t["kind"] == "function" and "end" in t]


def _short(scope):
    """A::B without anonymous parts and namespaces, whose names are of lower case."""
    return "::".join(p for p in scope.split("::") if not p.startswith("__anon") and not p.islower())


def stem(path):
    return re.sub(r"\.(h|cc|cu)$", "", path)


def classes(tags):
    """Classes and structs with their methods, fields, and the stems of files with their bodies."""
    found = {}
    for t in tags:
        if t["kind"] in ("class", "struct") and "end" in t:
            scope = t.get("scope", "")
            name = (scope + "::" if scope else "") + t["name"]
            found[name, t["path"]] = dict(line=t["line"], end=t["end"], kind=t["kind"],
                                          public=set(), private=set(), fields=0, bodies=set())
    by_name = collections.defaultdict(list)
    for (name, path), c in found.items():
        by_name[name].append((path, c))
    for t in tags:
        scope = t.get("scope")
        if not scope or scope not in by_name:
            continue
        inside = [c for path, c in by_name[scope]
                  if path == t["path"] and c["line"] <= t["line"] <= c["end"]]
        if inside and t["kind"] in ("prototype", "function"):
            c = inside[0]
            access = t.get("access") or ("private" if c["kind"] == "class" else "public")
            key = "public" if access == "public" else "private"
            c[key].add((t["name"], t.get("signature", "")))
        elif inside and t["kind"] == "member":
            inside[0]["fields"] += 1
        if t["kind"] == "function":
            for path, c in by_name[scope]:
                c["bodies"].add(stem(t["path"]))
    return [Class(path, c["line"], _short(name), len(c["public"]), len(c["private"]), c["fields"],
                  sorted(c["bodies"] | {stem(path)}))
            for (name, path), c in sorted(found.items())]


def measure(source):
    """(functions, classes) of the product."""
    tags = tags_of(source, product_files(source))
    return functions(tags), classes(tags)
