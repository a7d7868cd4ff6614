#!/usr/bin/env python3
"""Writes docs/diagrams/NAME.svg from NAME.seq (sequence diagrams, drawn here) and NAME.dot (drawn
by Graphviz). Each picture has the SHA-256 of its source in a comment.

  deploy/docs/diagrams.py           writes the pictures whose source changed
  deploy/docs/diagrams.py --all     writes all of them

A .seq file has one statement a line; "|" begins a new line of text:
  actor ID TEXT          a column
  A -> B TEXT            a message;  A ~> B  a reply (dashed);  A -x B  a message that is lost
  note A TEXT            a box on the line of A;  note A,C  over the columns from A to C
  line TEXT              a heading across the picture"""

import glob
import hashlib
import html
import os
import re
import subprocess
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "diagrams")
FONT, SMALL = 13, 12
WIDTH_OF_CHARACTER = 0.6  # relative to the font size; generous for Helvetica and DejaVu Sans
LINE, GAP, MARGIN, BOX = 17, 12, 20, 10
INK, PALE, ACCENT, NOTE, WRONG = "#1f2937", "#9ca3af", "#dbeafe", "#fef3c7", "#b91c1c"


def stamp(source):
    return f"<!-- source sha256 {hashlib.sha256(source.encode()).hexdigest()} -->"


def text_width(lines, size=FONT):
    return max(len(line) for line in lines) * size * WIDTH_OF_CHARACTER


class Sequence:
    """One .seq file: actors, then rows from top to bottom."""

    def __init__(self, source):
        self.actors, self.rows, self.svg = {}, [], []
        for number, line in enumerate(source.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if match := re.match(r"actor (\w+) (.+)$", line):
                self.actors[match[1]] = match[2].split("|")
            elif match := re.match(r"note (\w+)(?:,(\w+))? (.+)$", line):
                self.rows.append(("note", match[1], match[2] or match[1], match[3].split("|")))
            elif match := re.match(r"line (.+)$", line):
                self.rows.append(("line", "", "", match[1].split("|")))
            elif match := re.match(r"(\w+) (->|~>|-x) (\w+) (.+)$", line):
                self.rows.append((match[2], match[1], match[3], match[4].split("|")))
            else:
                raise ValueError(f"line {number}: cannot read {line!r}")
        self.place()

    def place(self):
        """The x of each actor: wide enough for its name, messages and notes."""
        names = list(self.actors)
        need = {}

        def wish(left, right, width):
            key = (names.index(left), names.index(right))
            need[key] = max(need.get(key, 0), width)

        for left, right in zip(names, names[1:]):
            half = (text_width(self.actors[left]) + text_width(self.actors[right])) / 2
            wish(left, right, half + 4 * BOX)
        for kind, one, other, lines in self.rows:
            if kind == "line":
                continue
            first, last = sorted((one, other), key=names.index)
            width = text_width(lines, SMALL) + 3 * BOX
            if first != last:
                wish(first, last, width)
            else:
                at = names.index(first)
                for side in (at - 1, at + 1):
                    if 0 <= side < len(names):
                        wish(*sorted((first, names[side]), key=names.index), width / 2 + 2 * BOX)
        self.x, x = {}, 0
        for at, name in enumerate(names):
            for (left, right), width in need.items():
                if right == at:
                    x = max(x, self.x[names[left]] + width)
            self.x[name] = x
        low = min([self.x[n] - text_width(t) / 2 - BOX for n, t in self.actors.items()] +
                  [self.x[a] - text_width(t, SMALL) / 2 - BOX for k, a, b, t in self.rows
                   if k == "note" and a == b])
        high = max([self.x[n] + text_width(t) / 2 + BOX for n, t in self.actors.items()] +
                   [self.x[a] + text_width(t, SMALL) / 2 + BOX for k, a, b, t in self.rows
                    if k == "note" and a == b])
        for kind, _, _, lines in self.rows:
            if kind == "line":
                missing = text_width(lines, SMALL) + 4 * BOX - (high - low)
                low, high = low - max(0, missing) / 2, high + max(0, missing) / 2
        self.x = {name: x - low + MARGIN for name, x in self.x.items()}
        self.width = high - low + 2 * MARGIN

    def put(self, tag, text=None, **attributes):
        given = "".join(f' {k.replace("_", "-")}="{v:.1f}"' if isinstance(v, float) else
                        f' {k.replace("_", "-")}="{v}"' for k, v in attributes.items())
        end = "/>" if text is None else f">{html.escape(text, quote=False)}</{tag}>"
        self.svg.append(f"<{tag}{given}{end}")

    def write(self, lines, x, y, size=FONT, anchor="middle", fill=INK, weight="normal"):
        for at, line in enumerate(lines):
            self.put("text", line, x=float(x), y=float(y + at * LINE), font_size=size,
                     text_anchor=anchor, fill=fill, font_weight=weight)

    def label(self, lines, x, y, weight="normal"):
        """Text on white, so that no line of an actor runs through it."""
        half = text_width(lines, SMALL) / 2
        self.put("rect", x=float(x - half), y=float(y - SMALL), width=float(2 * half),
                 height=float(LINE * len(lines)), fill="#ffffff")
        self.write(lines, x, y, SMALL, weight=weight)

    def box(self, x, y, width, height, fill):
        self.put("rect", x=float(x), y=float(y), width=float(width), height=float(height), rx=4,
                 fill=fill, stroke=PALE)

    def arrow(self, kind, one, other, lines, y):
        """Returns the y below it."""
        left, right = sorted((self.x[one], self.x[other]))
        self.label(lines, (left + right) / 2, y + LINE - 4)
        y += LINE * len(lines) + 4
        sign = 1 if self.x[other] > self.x[one] else -1
        end = self.x[other] - sign * 2
        colour = WRONG if kind == "-x" else INK
        if kind == "-x":
            end = (self.x[one] + self.x[other]) / 2 + sign * (right - left) / 4
        dash = {"stroke_dasharray": "5 4"} if kind == "~>" else {}
        self.put("line", x1=float(self.x[one]), y1=float(y), x2=float(end), y2=float(y),
                 stroke=colour, stroke_width=1.4, **dash)
        if kind == "-x":
            for up in (-5, 5):
                self.put("line", x1=float(end - 5), y1=float(y - up), x2=float(end + 5),
                         y2=float(y + up), stroke=colour, stroke_width=1.8)
        else:
            back = end - sign * 9
            self.put("polygon", points=f"{end:.1f},{y:.1f} {back:.1f},{y - 4:.1f} "
                     f"{back:.1f},{y + 4:.1f}", fill=colour)
        return y + GAP

    def note(self, one, other, lines, y):
        left, right = sorted((self.x[one], self.x[other]))
        half = max(text_width(lines, SMALL) / 2 + BOX, (right - left) / 2 + BOX)
        middle, height = (left + right) / 2, LINE * len(lines) + 8
        self.box(middle - half, y + 2, 2 * half, height, NOTE)
        self.write(lines, middle, y + LINE, SMALL)
        return y + height + GAP

    def draw(self):
        height = max(len(lines) for lines in self.actors.values()) * LINE + BOX
        top = y = MARGIN + height + GAP
        lifelines = len(self.svg)
        for kind, one, other, lines in self.rows:
            if kind == "line":
                self.label(lines, self.width / 2, y + LINE, weight="bold")
                self.put("line", x1=float(MARGIN), y1=float(y + 24), x2=float(self.width - MARGIN),
                         y2=float(y + 24), stroke=PALE, stroke_width=1)
                y += 24 + GAP
            elif kind == "note":
                y = self.note(one, other, lines, y)
            else:
                y = self.arrow(kind, one, other, lines, y)
        rows, self.svg = self.svg[lifelines:], self.svg[:lifelines]
        for name, lines in self.actors.items():
            x, half = self.x[name], text_width(lines) / 2 + BOX
            self.put("line", x1=float(x), y1=float(MARGIN + height), x2=float(x),
                     y2=float(y + GAP), stroke=PALE, stroke_width=1.2)
            self.box(x - half, MARGIN, 2 * half, height, ACCENT)
            self.write(lines[:1], x, MARGIN + LINE, weight="bold")
            self.write(lines[1:], x, MARGIN + 2 * LINE, SMALL)
        assert top <= y
        return self.frame(self.svg + rows, y + GAP + MARGIN)

    def frame(self, body, height):
        return "\n".join(
            [f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
             f'height="{height:.0f}" viewBox="0 0 {self.width:.0f} {height:.0f}" '
             'font-family="Helvetica, Arial, DejaVu Sans, sans-serif">',
             f'<rect width="{self.width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
             *body, "</svg>", ""])


def picture(path, source):
    """The SVG of a source."""
    if path.endswith(".seq"):
        return stamp(source) + "\n" + Sequence(source).draw()
    done = subprocess.run(["dot", "-Tsvg"], input=source, text=True, capture_output=True,
                          check=True)
    return stamp(source) + "\n" + done.stdout[done.stdout.index("<svg"):]


def sources(folder=FOLDER):
    return sorted(path for ending in ("*.seq", "*.dot")
                  for path in glob.glob(os.path.join(folder, ending)))


def main():
    for path in sources():
        with open(path, encoding="utf-8") as file:
            source = file.read()
        svg = os.path.splitext(path)[0] + ".svg"
        old = ""
        if os.path.exists(svg):
            with open(svg, encoding="utf-8") as file:
                old = file.read()
        if "--all" in sys.argv or not old.startswith(stamp(source)):
            with open(svg, "w", encoding="utf-8") as file:
                file.write(picture(path, source))
            print(os.path.relpath(svg))


if __name__ == "__main__":
    main()
