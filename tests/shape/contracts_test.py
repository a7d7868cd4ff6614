"""A body is in the file of its header, a precondition is checked, and the modules keep their assertions.

Each rule has a list of today's exceptions beside this file, and the lists only get better: an entry that is
not needed any more, or that could be stricter, fails too. TANDEM_UPDATE=1 makes the lists stricter; a list that
is absent is made from what the sources are."""

import collections
import os
import unittest

import contracts
import script
import shape

HEADS = {
    "bodies.txt": "# registry HEADER: an explicit table, whose functions are in a file each.\n"
                  "# body HEADER SOURCE: free functions of HEADER that SOURCE defines. This list only gets shorter.\n",
    "requires.txt": "# room, functions in its headers whose comment has REQUIRES while no body checks anything.\n"
                    "# These figures only get smaller.\n",
    "assertions.txt": "# module, assertions (CHECK, DCHECK, TD_REQUIRE, static_assert) per 1,000 lines without comments.\n"
                      "# These figures only get larger.\n",
}
STEP = 1.0  # a module that passes its figure by this much gets a new figure


def is_absent(name):
    return not os.path.exists(os.path.join(script.SOURCE, "tests/shape", name))


def rows(name):
    if is_absent(name):
        return []
    with open(os.path.join(script.SOURCE, "tests/shape", name), encoding="utf-8") as text:
        return [line.split() for line in text if line.strip() and not line.startswith("#")]


def write(name, new_rows):
    with open(os.path.join(script.SOURCE, "tests/shape", name), "w", encoding="utf-8") as out:
        out.write(HEADS[name] + "".join(" ".join(row) + "\n" for row in sorted(new_rows)))


class ContractsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = shape.product_files(script.SOURCE)
        cls.tags = shape.tags_of(script.SOURCE, cls.files)
        cls.update = bool(os.environ.get("TANDEM_UPDATE"))

    def test_a_body_is_in_the_file_of_its_header(self):
        found = contracts.misplaced(self.tags)
        registries = {row[1] for row in rows("bodies.txt") if row[0] == "registry"}
        listed = {(row[1], row[2]) for row in rows("bodies.txt") if row[0] == "body"}
        if self.update:
            registries &= {header for header, _ in found}
            listed = {b for b in found if b[0] not in registries} if is_absent("bodies.txt") else listed & found.keys()
            write("bodies.txt", [["registry", r] for r in registries] + [["body", *b] for b in listed])
        for (header, source), names in sorted(found.items()):
            with self.subTest(source=source):
                self.assertTrue(header in registries or (header, source) in listed,
                                f"{', '.join(sorted(names))}: {header} declares what {source} defines; give it a "
                                "header of the same stem")
        for pair in sorted(listed):
            self.assertIn(pair, found, "this entry of bodies.txt is not needed any more: remove it")
        for header in sorted(registries):
            self.assertIn(header, {h for h, _ in found}, "this registry of bodies.txt has no functions: remove it")

    def test_a_precondition_is_checked(self):
        found = contracts.unchecked(script.SOURCE, self.tags)
        figures = collections.Counter(os.path.dirname(path) for path, _, _ in found)
        listed = {room: int(figure) for room, figure in rows("requires.txt")}
        if self.update:
            if is_absent("requires.txt"):
                listed = dict(figures)
            listed = {room: min(figure, figures[room]) for room, figure in listed.items() if figures[room]}
            write("requires.txt", [[room, str(figure)] for room, figure in listed.items()])
        for room in sorted(figures.keys() | listed.keys()):
            with self.subTest(room):
                names = [f"{path}:{line} {name}" for path, line, name in found if os.path.dirname(path) == room]
                self.assertLessEqual(figures[room], listed.get(room, 0),
                                     f"REQUIRES without TD_REQUIRE in the body: {names}")
                self.assertGreaterEqual(figures[room], listed.get(room, 0),
                                        f"this entry of requires.txt can be lowered to {figures[room]}")

    def test_modules_keep_their_assertions(self):
        sums = contracts.assertions(script.SOURCE, self.files)
        density = {name: 1000 * count / lines for name, (count, lines) in sums.items()}
        listed = {module: float(figure) for module, figure in rows("assertions.txt")}
        if self.update:
            listed = {m: max(listed.get(m, 0), int(10 * density[m]) / 10) for m in contracts.MODULES}
            write("assertions.txt", [[module, f"{figure:.1f}"] for module, figure in listed.items()])
        self.assertEqual(set(listed), set(contracts.MODULES))
        for module, figure in sorted(listed.items()):
            with self.subTest(module):
                self.assertGreaterEqual(density[module], figure, f"assertions per 1,000 lines: {sums[module]}")
                self.assertLess(density[module], figure + STEP,
                                f"this entry of assertions.txt can be raised to {int(10 * density[module]) / 10}")


if __name__ == "__main__":
    script.need_programs("ctags", package="universal-ctags")
    script.main()
