"""No function, class or struct of the product is larger than a reader can hold.

Offenders of today stand in offenders.txt, with the figure that they may not pass. The list only gets shorter:
an entry that is not needed any more, or that could be lower, fails too."""

import os
import unittest

import script
import shape

FUNCTION_LINES = 70
PUBLIC_METHODS = 25
METHODS = 45
FIELDS = 25
BODY_FILES = 1  # pairs of header and source


def figures(source):
    """(rule, place, name) -> figure, of all that pass a limit."""
    found, seen = {}, {}
    functions, classes = shape.measure(source)
    for f in functions:
        if f.lines > FUNCTION_LINES:
            found["function_lines", f.path, f.name] = f.lines
            seen["function_lines", f.path, f.name] = f"{f.path}:{f.line}"
    for c in classes:
        for rule, figure, limit in (("public_methods", c.public, PUBLIC_METHODS),
                                    ("methods", c.public + c.private, METHODS),
                                    ("fields", c.fields, FIELDS),
                                    ("body_files", len(c.body_files), BODY_FILES)):
            if figure > limit:
                found[rule, c.path, c.name] = figure
                seen[rule, c.path, c.name] = f"{c.path}:{c.line}"
    return found, seen


def offenders():
    path = os.path.join(script.SOURCE, "tests/shape/offenders.txt")
    rows = {}
    with open(path, encoding="utf-8") as text:
        lines = text.readlines()
    for line in lines:
        if line.strip() and not line.startswith("#"):
            rule, place, name, figure = line.split()
            rows[rule, place, name] = int(figure)
    return rows


class ShapeTest(unittest.TestCase):
    def test_nothing_is_larger_than_the_limits_or_its_entry(self):
        found, seen = figures(script.SOURCE)
        allowed = offenders()
        if os.environ.get("TANDEM_UPDATE"):
            write(found, allowed)
            allowed = offenders()
        for key, figure in sorted(found.items()):
            rule, _, name = key
            with self.subTest(key):
                self.assertIn(key, allowed, f"{seen[key]}: {name}: {rule} is {figure}, over the limit; "
                              "make a part of it a type with a file pair")
                self.assertLessEqual(figure, allowed[key], f"{seen[key]}: {name}: {rule} has grown")

    def test_the_list_only_gets_shorter(self):
        found, _ = figures(script.SOURCE)
        for key, figure in sorted(offenders().items()):
            with self.subTest(key):
                self.assertIn(key, found, "this entry of offenders.txt is not needed any more: remove it")
                self.assertGreaterEqual(found[key], figure,
                                        f"this entry of offenders.txt can be lowered to {found.get(key)}")


def write(found, allowed):
    """Lowers and removes entries; adds none, but where there is no list yet."""
    rows = {k: v for k, v in found.items() if not allowed or k in allowed}
    path = os.path.join(script.SOURCE, "tests/shape/offenders.txt")
    with open(path, "w", encoding="utf-8") as out:
        out.write("# rule, file, name, figure that it may not pass (tests/shape/shape_test.py)\n")
        for (rule, place, name), figure in sorted(rows.items()):
            out.write(f"{rule} {place} {name} {min(figure, allowed.get((rule, place, name), figure))}\n")


if __name__ == "__main__":
    script.need_programs("ctags", package="universal-ctags")
    script.main()
