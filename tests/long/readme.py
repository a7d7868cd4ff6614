#!/usr/bin/env python3
"""Runs each command of README.md's code blocks, in their order, and prints a table.

  tests/long/readme.py [--skip=TEXT,...]

It is meant for a fresh machine after `./deploy/quickstart.sh`, and uses the build that quickstart
left. A word in capitals that the README leaves to the reader is replaced (PLACEHOLDERS). A server
that the reader would stop runs beside the command after it. The exit status is 1 if a command failed.
"""

import argparse
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "deploy"))
import jobs  # noqa: E402
COMMAND_SECONDS_MAX = 3000
SERVER_SECONDS = 3
# The reader's own names. A command that contains one is run with the value instead.
PLACEHOLDERS = {
    "JOB": "{folder}/job.pbtxt --epochs=2",
}


def commands(text):
    """The lines of the code blocks that begin with a program of the repository."""
    for block in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if re.match(r"(\./deploy/|build/bin/|cmake |ninja |tests/|PYTHONPATH=)", line):
                yield re.sub(r"\s+#.*$", "", line)


def replace(command, folder):
    for name, value in PLACEHOLDERS.items():
        command = re.sub(rf"(?<![\w/]){re.escape(name)}\b", value.format(folder=folder), command)
    return command


def start(command):
    return subprocess.Popen(command, shell=True, cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            executable="/bin/bash", start_new_session=True)


def stop(server):
    """Ends a server that a command of the README left running; its exit status."""
    os.killpg(server.pid, signal.SIGTERM)
    server.communicate(timeout=30)
    return server.returncode


def run(command):
    """Exit status, seconds and the last lines of the output."""
    begin = time.monotonic()
    process = start(command)
    output, _ = process.communicate(timeout=COMMAND_SECONDS_MAX)
    return process.returncode, time.monotonic() - begin, "\n".join(output.splitlines()[-12:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip", default="", help="commands that contain one of these are left out")
    args = parser.parse_args()
    skipped = [text for text in args.skip.split(",") if text]
    failed, server = 0, None
    print("| command | exit status | seconds |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        jobs.write_click(folder)
        for command in commands((ROOT / "README.md").read_text(encoding="utf-8")):
            if any(text in command for text in skipped):
                continue
            if shlex.split(command)[0].endswith("tandem-pserver"):
                server = start(command)
                time.sleep(SERVER_SECONDS)
                print(f"| `{command}` | {server.poll() or 0} | beside the next |", flush=True)
                failed += server.poll() is not None
                continue
            status, seconds, tail = run(replace(command, folder))
            if server is not None:
                failed += stop(server) not in (0, -signal.SIGTERM)
                server = None
            print(f"| `{command}` | {status} | {seconds:.1f} |", flush=True)
            if status != 0:
                failed += 1
                print(f"{command}:\n{tail}\n", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
