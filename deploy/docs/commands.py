#!/usr/bin/env python3
"""Writes the pages of docs/reference/commands: what each program and each command of `tandem` says
with --help. tests/deploy/site_test.py compares them, and deploy/man/page.sh makes the manual pages
of the same text.

  deploy/docs/commands.py build/bin"""

import os
import re
import subprocess
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGES = os.path.join(ROOT, "docs", "reference", "commands")
# Program -> first paragraph, other pages.
PROGRAMS = {
    "tandem": (
        "`tandem` checks jobs, watches and changes running ones, and reads and writes their files.\n"
        "[Commands](../../start/commands.md) shows the commands of a working day.\n",
        ["tandemrun", "tandem-pserver", "tandem-trainer"]),
    "tandemrun": (
        "`tandemrun` starts the processes of a job on this host and watches them.\n"
        "[Your first job](../../start/first-job.md) uses it step by step.\n",
        ["tandem", "tandem-pserver", "tandem-trainer"]),
    "tandem-pserver": (
        "`tandem-pserver` is one parameter server of a job. `tandemrun` starts it, or a service\n"
        "manager does: [Run as a service](../../guides/run-as-a-service.md).\n",
        ["tandemrun", "tandem", "tandem-trainer"]),
    "tandem-trainer": (
        "`tandem-trainer` is one trainer of a job. It takes a flag for each field of the\n"
        "[job file](../job-file.md) and for each [knob](../knobs.md) too.\n",
        ["tandemrun", "tandem", "tandem-pserver"]),
}
FLAG = re.compile(r"  --([a-z_0-9]+)(\S*) *(.*)$")


def said(folder, *command):
    done = subprocess.run([os.path.join(folder, command[0]), *command[1:], "--help"],
                          capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


def escape(text):
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|")
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def section(text):
    """The usage as it is, and a table of the flags."""
    lines = text.rstrip().splitlines()
    first = next((i for i, line in enumerate(lines) if FLAG.match(line)), len(lines))
    usage = "\n".join(lines[:first]).rstrip()
    out = [f"```text\n{usage}\n```\n"]
    rows = []
    for line in lines[first:]:
        if match := FLAG.match(line):
            value = match[2].replace("|", "\\|")
            rows.append([f"`--{match[1]}{value}`", match[3]])
        elif line.strip():
            rows[-1][1] += " " + line.strip()
    if rows:
        out.append("| flag | meaning |\n|---|---|")
        out += [f"| {flag} | {escape(meaning)} |" for flag, meaning in rows]
        out.append("")
    return out


def page(name, folder):
    """The page of a program that is in `folder`."""
    first, others = PROGRAMS[name]
    text = said(folder, name)
    out = [f"# {name}\n", first,
           f"Generated from `{name} --help` by `deploy/docs/commands.py`; do not edit.\n",
           *section(text)]
    if name == "tandem":
        for command in re.findall(r"^  ([a-z]+) ", text, re.M):
            out += [f"## tandem {command}\n", *section(said(folder, name, command))]
    out.append("## See also\n")
    out += [f"- [{other}]({other}.md)" for other in others]
    out += ["- [Exit codes](../exit-codes.md), [Environment](../environment.md)"]
    return "\n".join(out) + "\n"


def main():
    os.makedirs(PAGES, exist_ok=True)
    for name in PROGRAMS:
        with open(os.path.join(PAGES, f"{name}.md"), "w", encoding="utf-8") as file:
            file.write(page(name, sys.argv[1]))


if __name__ == "__main__":
    main()
