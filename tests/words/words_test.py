"""No comment of the C++ sources has a word that the style guide bans, or begins as a fragment.

allowed.txt has the places that are left, by folder. The list only gets shorter."""

import collections
import os
import unittest

import script
import words


def folder(path):
    return "/".join(path.split("/")[:2]) if path.count("/") > 1 else os.path.dirname(path) or "."


class WordsTest(unittest.TestCase):
    def test_comments_have_no_banned_words(self):
        found, places = collections.Counter(), collections.defaultdict(list)
        for block in words.comments(script.SOURCE):
            for fault in words.faults(block):
                found[folder(block.path)] += 1
                places[folder(block.path)].append(f"{block.path}:{block.line}: {fault}: {block.text[:100]}")
        allowed_file = os.path.join(script.SOURCE, "tests/words/allowed.txt")
        if os.environ.get("TANDEM_UPDATE"):
            with open(allowed_file, "w", encoding="utf-8") as out:
                out.write("# folder, banned words in its comments (tests/words/words_test.py): only ever fewer\n")
                out.writelines(f"{name} {count}\n" for name, count in sorted(found.items()))
        with open(allowed_file, encoding="utf-8") as text:
            rows = [line.split() for line in text if line.strip() and not line.startswith("#")]
        allowed = {name: int(count) for name, count in rows}
        for name in sorted(set(found) | set(allowed)):
            with self.subTest(name):
                self.assertLessEqual(found[name], allowed.get(name, 0),
                                     "see docs/contributing/style-guide.md\n" + "\n".join(places[name]))
                self.assertGreaterEqual(found[name], allowed.get(name, 0),
                                        f"tests/words/allowed.txt: {name} can be lowered to {found[name]}")


class CommentsTest(unittest.TestCase):
    def test_lines_with_a_comment_alone_are_one_block(self):
        text = '// One\n// block.\nint x = 1;  // Two "words"\n// Three.\nchar s[] = "// none";\n\n// Four.\n'
        self.assertEqual([(b.line, b.text) for b in words.comments_of("x.cc", text)],
                         [(1, "One block."), (3, 'Two "words"'), (4, "Three."), (7, "Four.")])

    def test_faults(self):
        for text, expected in (("What it is", ["begins with What"]), ("a folder of its own", ["of its own"]),
                               ("Whatever", []), ("of the file", ["begins with of"]), ("Nobody asks anew", ["nobody", "anew"])):
            self.assertEqual(words.faults(words.Block("x.cc", 1, text)), expected)


if __name__ == "__main__":
    script.main()
