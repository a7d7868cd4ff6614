"""Comments and messages of the sources, as blocks of text, and the words that the style guide bans.

Used by words_test.py, which counts the banned words, and by sample.py, which draws a sample to read."""

import collections
import re

import sources

Block = collections.namedtuple("Block", "path line text")

# docs/contributing/style-guide.md, "Standard words".
BANNED = re.compile(
    r"\b(whoever|whomever|nobody|somebody|everybody|anew|of (?:its|their|our|his|her) own|so many|"
    r"what became of|by and by|now and then|for good|slip of the pen)\b", re.IGNORECASE)
FRAGMENT = re.compile(r"(of|what|that|whose|whom|whoever|than)\b", re.IGNORECASE)
_TOKENS = re.compile(r'//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def comments_of(path, text):
    """Comments of C++: adjacent lines with nothing but a comment are one block."""
    blocks, last = [], None
    for match in _TOKENS.finditer(text):
        if not match.group().startswith("//"):
            continue
        line = text.count("\n", 0, match.start()) + 1
        begin = text.rfind("\n", 0, match.start()) + 1
        alone = not text[begin:match.start()].strip()
        words = match.group()[2:].strip()
        if not words or words.startswith(("namespace", "NOLINT", "TANDEM_")):
            last = None
            continue
        if alone and last is not None and blocks[-1].line + last == line:
            blocks[-1] = blocks[-1]._replace(text=blocks[-1].text + " " + words)
            last += 1
        else:
            blocks.append(Block(path, line, words))
            last = 1 if alone else None
    return blocks


def comments(source):
    found = []
    for path in sources.files(source, ".h", ".cc", ".cu"):
        with open(f"{source}/{path}", encoding="utf-8") as text:
            found += comments_of(path, text.read())
    return found


_MESSAGE = re.compile(
    r'\b(?:InvalidArgument|NotFound|FailedPrecondition|Unavailable|DataLoss|ResourceExhausted|Unimplemented|'
    r'PermissionDenied|Unauthenticated|DeadlineExceeded|AlreadyExists|OutOfRange|Aborted|Cancelled|Internal|Error)'
    r'\(\s*((?:"(?:\\.|[^"\\\n])*"\s*)+)')


def messages(source):
    """Formats of statuses in the product."""
    found = []
    for path in sources.files(source, ".h", ".cc"):
        if path.startswith("tests/"):
            continue
        with open(f"{source}/{path}", encoding="utf-8") as text:
            content = text.read()
        for match in _MESSAGE.finditer(content):
            words = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group(1)))
            if " " in words:
                found.append(Block(path, content.count("\n", 0, match.start()) + 1, words))
    return found


def code_of(source, block):
    """The line of code that a comment belongs to, without the comment; "" for the head of a file."""
    with open(f"{source}/{block.path}", encoding="utf-8") as text:
        lines = text.read().split("\n")[block.line - 1:]
    code = re.sub(r"\s*//.*", "", lines[0]).strip()
    if code:
        return code
    after = next((line.strip() for line in lines if not line.strip().startswith("//")), "")
    return re.sub(r"\s*//.*", "", after)


def faults(block):
    """The banned words of a comment, and its first word if it begins with a fragment."""
    found = [m.group().lower() for m in BANNED.finditer(block.text)]
    first = FRAGMENT.match(block.text)
    return found + ([f"begins with {first.group()}"] if first else [])
