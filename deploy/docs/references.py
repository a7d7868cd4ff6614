#!/usr/bin/env python3
"""Writes the references that have their source in .proto files or in the Python client:
docs/reference/job-file.md, program-file.md, grpc.md and python.md. tests/deploy/site_test.py
compares them.

  deploy/docs/references.py"""

import ast
import glob
import inspect
import os
import re

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
GENERATED = ("Generated from `proto/{}` by `deploy/docs/references.py`; do not edit.\n"
             "The text is that of the comments in the file.\n")
# Page -> title, source, first paragraph, first message.
PAGES = {
    "job-file.md": (
        "Job file", "job.proto",
        "A job file is a `JobConfig` in protobuf's text form. A flag can set each field by its\n"
        "path: `--optimizer.learning_rate=0.1`. Fields of `strategy` are on the page\n"
        "[Knobs](knobs.md). [Your first job](../start/first-job.md) builds a file step by step.\n",
        "JobConfig"),
    "program-file.md": (
        "Program file", "program.proto",
        "A program file is a `ProgramDef` in protobuf's text form: a network for\n"
        "`model { program: ... }`. [Operators](operators.md) lists the operators.\n",
        "ProgramDef"),
    "grpc.md": (
        "gRPC interface", "pserver.proto",
        "These are the calls of a pserver. The [Python](../guides/python-client.md) and\n"
        "[C++](../guides/cpp-client.md) clients make them; other programs can too.\n",
        "ParameterServer"),
}


class Block:
    """A message, an enum or a service with its entries."""

    def __init__(self, kind, name, text):
        self.kind, self.name, self.text, self.entries = kind, name, text, []


def escape(text):
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def read_blocks(lines):
    """All blocks of a .proto file in their order, nested ones with the name of their parent."""
    blocks, open_blocks, comment = [], [], []
    statement = ""
    for line in lines:
        line = line.strip()
        if line.startswith("//") and not statement:
            line = re.sub(r"^// -{4} (.*?) -+$", r"// \1:", line)  # the title of a section
            comment.append(re.sub(r"^// ?(-{4} ?)?", "", line))
            continue
        if not line:
            comment = [] if not open_blocks else comment
            continue
        code, _, trailing = line.partition("  //") if not line.startswith('"') else (line, "", "")
        code, _, other = code.partition(" // ") if not trailing else (code, "", "")
        trailing = (trailing or other).strip()
        statement = (statement + " " + code.strip()).strip()
        if not statement.endswith((";", "{", "}")):
            continue
        text = " ".join([*comment, trailing]).strip()
        if match := re.match(r"(message|enum|service) (\w+) \{ *(\})?$", statement):
            parents = [b.name for b in open_blocks[-1:] if b]
            block = Block(match[1], ".".join(parents + [match[2]]), " ".join(comment))
            blocks.append(block)
            if not match[3]:
                open_blocks.append(block)
        elif statement.startswith("oneof"):
            open_blocks.append(open_blocks[-1])
        elif statement == "}":
            open_blocks.pop()
        elif match := re.match(r"message (\w+) \{ (.*;) \}$", statement):
            block = Block("message", f"{open_blocks[-1].name}.{match[1]}", " ".join(comment))
            block.entries = [(entry, "") for entry in match[2].split("; ")]
            blocks.append(block)
        elif open_blocks:
            open_blocks[-1].entries.append((statement, text))
        comment, statement = [], ""
    return blocks


def link(name, block, names):
    """The name of a type as a link to its heading, if the page has it."""
    for full in (f"{block.name}.{name}", name):
        if full in names:
            return f"[{name}](#{full.lower().replace('.', '')})"
    return f"`{name}`"


def field_row(statement, text, block, names):
    match = re.match(r"(optional |repeated |)([\w.<>, ]+?) (\w+) = \d+ *(?:\[(.*)\])?;?$",
                     statement)
    if match is None:
        return None
    label, kind, name, options = match.groups()
    default = re.search(r"default = ([^,\]]+|\"[^\"]*\")", options or "")
    kind = link(kind, block, names) + (", repeated" if label == "repeated " else "")
    shown = f"`{default[1].strip()}`" if default else ""
    return f"| `{name}` | {kind} | {shown} | {escape(text)} |"


def section(block, names):
    out = [f"## {block.name}\n"]
    if block.text:
        out.append(escape(block.text) + "\n")
    if block.kind == "service":
        for statement, text in block.entries:
            match = re.match(r"rpc (\w+)\((\w+)\) returns \((\w+)\);", statement)
            if match:
                out.append(f"### {match[1]}\n")
                out.append(f"{link(match[2], block, names)} -> {link(match[3], block, names)}\n")
                out.append(escape(text) + "\n" if text else "")
    elif block.kind == "enum":
        rows = [(re.match(r"(\w+) = (-?\d+)", s), t) for s, t in block.entries]
        out.append("| value | number | meaning |\n|---|---|---|")
        out += [f"| `{m[1]}` | {m[2]} | {escape(t)} |" for m, t in rows if m]
        out.append("")
    else:
        rows = [field_row(s, t, block, names) for s, t in block.entries]
        if any(rows):
            out.append("| field | type | default | meaning |\n|---|---|---|---|")
            out += [row for row in rows if row]
            out.append("")
    return "\n".join(part for part in out if part is not None)


def read_proto(source):
    with open(os.path.join(ROOT, "proto", source), encoding="utf-8") as file:
        return file.read().splitlines()


def head(lines):
    """The comment before `syntax`, without its first paragraph, which the page replaces. Lines
    "NAME: text" after a line that ends with a colon become a table."""
    comment = []
    for line in lines:
        if not line.startswith("//"):
            break
        comment.append(line.removeprefix("//").removeprefix(" "))
    out, rows = [], []
    for paragraph in "\n".join(comment).split("\n\n")[1:]:
        title, _, rest = paragraph.partition("\n")
        if not re.fullmatch(r"[\w ]+:", title):
            out.append(escape(paragraph) + "\n")
            continue
        for line in rest.splitlines():
            if match := re.match(r"([A-Z_]+): (.*)", line):
                rows.append([match[1], match[2]])
            else:
                rows[-1][1] += " " + line
        out.append(f"## {title.removesuffix(':')}\n\n| code | meaning |\n|---|---|")
        out += [f"| {code} | {escape(text)} |" for code, text in rows]
        out.append("")
    return out


def versioned_calls():
    """The calls of the versioned service, which have the messages of the other one."""
    calls = next(b for b in read_blocks(read_proto("pserver_v1.proto")) if b.kind == "service")
    own = next(b for b in read_blocks(read_proto("pserver.proto")) if b.kind == "service")
    out = ["## tandem.pserver.v1.ParameterServer\n",
           "A pserver serves these calls beside those of `tandem.ParameterServer`. Both have the same\n"
           "messages and effects. No call of this service changes its name, and no field its number.\n"
           "`proto/pserver_v1.proto` declares them.\n",
           "| call | same as |\n|---|---|"]
    for (statement, _), (same, _) in zip(calls.entries, own.entries, strict=True):
        name, other = (re.match(r"rpc (\w+\(.*)", text)[1] for text in (statement, same))
        assert name.partition("(")[2] == other.partition("(")[2], (name, other)
        name, other = name.partition("(")[0], other.partition("(")[0]
        out.append(f"| {name} | [{other}](#{other.lower()}) |")
    return out + [""]


def page(name):
    """The text of a page."""
    title, source, first, top = PAGES[name]
    lines = read_proto(source)
    blocks = read_blocks(lines)
    names = {block.name for block in blocks}
    blocks.sort(key=lambda block: block.name != top)
    parts = [f"# {title}\n", first, GENERATED.format(source)]
    if name == "grpc.md":
        parts += head(lines) + versioned_calls()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts + [section(b, names) for b in blocks])
                  ).rstrip() + "\n"


PYTHON = "pserver/client/python/tandem_pserver"
# Files in trainer/python/tandem with names that only tandem.ps has, not tandem_pserver.
READERS = ("ps_follower.py", "ps_reader.py")


def definition(node, level, prefix=""):
    """A class or function with its signature and docstring, and the public methods of a class."""
    out = [f"{level} {node.name}\n"]
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
    call = node
    if isinstance(node, ast.ClassDef):
        call = next((m for m in methods if m.name == "__init__"), None)
    if call is not None:
        given = ast.unparse(call.args).removeprefix("self").removeprefix(", ")
        out.append(f"```text\n{prefix}{node.name}({given})\n```\n")
    if doc := ast.get_docstring(node):
        out.append(escape(inspect.cleandoc(doc)) + "\n")
    if isinstance(node, ast.ClassDef):
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        if fields:
            out.append("```text\n" + "\n".join(ast.unparse(n) for n in fields) + "\n```\n")
        for method in methods:
            if not method.name.startswith("_"):
                out += definition(method, level + "#", node.name + ".")
    return out


def python_page():
    """The public names of tandem.ps, the Python client."""
    trees = {}
    for path in sorted(glob.glob(os.path.join(ROOT, PYTHON, "*.py"))):
        with open(path, encoding="utf-8") as file:
            trees[os.path.basename(path)] = ast.parse(file.read())
    for reader in READERS:
        with open(os.path.join(ROOT, "trainer/python/tandem", reader), encoding="utf-8") as file:
            trees[reader] = ast.parse(file.read())
    public = [name for file in ("__init__.py", *READERS) for n in trees[file].body
              if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"
              for name in ast.literal_eval(n.value)]
    out = ["# Python API\n",
           "These are the public names of `tandem.ps` and of the package `tandem_pserver`, which lacks\n"
           "Change, Dense, Follower, Reader, Rows and follow. The guides\n"
           "[Python client](../guides/python-client.md), [Read replicas](../guides/read-replicas.md) and\n"
           "[Follow a table](../guides/follow-a-table.md) show how a program uses them.\n",
           f"Generated from `{PYTHON}`,\n"
           + " and\n".join(f"`trainer/python/tandem/{name}`" for name in READERS)
           + "\nby `deploy/docs/references.py`; do not edit.\n"]
    for name in sorted(public, key=lambda n: (n != "Client", n)):
        for tree in trees.values():
            for node in tree.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                    out += definition(node, "##")
                elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
                    other = node.value.id  # a former name
                    out += [f"## {name}\n", f"The former name of [{other}](#{other.lower()}).\n"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def main():
    pages = {name: page(name) for name in PAGES} | {"python.md": python_page()}
    for name, text in pages.items():
        with open(os.path.join(ROOT, "docs", "reference", name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
