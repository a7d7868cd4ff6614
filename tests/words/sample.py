#!/usr/bin/env python3
"""Draws random comments and messages for a reader who grades them: clear, needs a second reading, unclear.

usage: tests/words/sample.py --seed=N [--count=100] [--code]

With --code, each text has the line of code that it belongs to."""

import argparse
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import words

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--code", action="store_true")
    given = parser.parse_args()
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    draw = random.Random(given.seed)
    for title, blocks in (("Comments", words.comments(source)), ("Messages", words.messages(source))):
        print(f"## {title} ({given.count} of {len(blocks)}, seed {given.seed})\n")
        for number, block in enumerate(draw.sample(blocks, given.count), 1):
            code = words.code_of(source, block) if given.code else ""
            print(f"{number}. `{block.path}:{block.line}` {block.text}" + (f"\n   code: `{code}`" if code else ""))
        print()
