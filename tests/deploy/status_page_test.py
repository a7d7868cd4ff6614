"""The status pages of a running job as a browser shows them, at three moments: headless Chromium
(Debian's package) runs the page's script; what it put into the document and onto the screen is
looked at."""

import html.parser
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import zlib

import jobs
import processes
import script
from ports import free_ports

script.need_programs("chromium", package="chromium")

LINE = (0x24, 0x63, 0xd6)  # --line of common/http/status_page.css


class Document(html.parser.HTMLParser):
    """Texts by the id or tag of the element around them, and how often tags occur."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.tags, self.attributes, self.stack = {}, {}, {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        name = values.get("id", tag)
        self.stack.append((tag, name))
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes.setdefault(name, []).append(values)

    def handle_endtag(self, tag):
        while self.stack and self.stack.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.stack and data.strip():
            self.texts.setdefault(self.stack[-1][1], []).append(data.strip())


def pixels_of(path, colour):
    """How many pixels of an 8-bit RGB or RGBA image (PNG) have a colour."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunk = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, form = struct.unpack(">IIBB", chunk[:10])
        if kind == b"IDAT":
            packed += chunk
        at += size + 12
    step = {2: 3, 6: 4}[form]
    assert depth == 8
    raw, row, count = zlib.decompress(packed), bytearray(width * step), 0
    for y in range(height):
        start = y * (width * step + 1)
        filtered, line = raw[start], bytearray(raw[start + 1:start + 1 + width * step])
        for x, value in enumerate(line):
            left = line[x - step] if x >= step else 0
            up = row[x]
            corner = row[x - step] if x >= step else 0
            if filtered == 1:
                value += left
            elif filtered == 2:
                value += up
            elif filtered == 3:
                value += (left + up) // 2
            elif filtered == 4:
                guess = left + up - corner
                value += min((abs(guess - left), 0, left), (abs(guess - up), 1, up),
                             (abs(guess - corner), 2, corner))[2]
            line[x] = value & 255
        row = line
        count += sum(tuple(row[x:x + 3]) == colour for x in range(0, len(row), step))
    return count


class StatusPage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-page-")
        self.addCleanup(shutil.rmtree, self.folder)
        jobs.write_click(self.folder)

    def chromium(self, address, *more):
        """stdout; the page's own errors fail the test."""
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--user-data-dir=" + os.path.join(self.folder, "browser"),
             "--window-size=1000,900", "--virtual-time-budget=3000", "--enable-logging=stderr",
             *more, address],
            capture_output=True, text=True, timeout=120, check=False)
        errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(errors, [], "the page's script")
        return done.stdout

    def look(self, port, name):
        """The document after its script has run for a while; and a screenshot's lit pixels."""
        address = f"http://127.0.0.1:{port}/"
        document = Document(self.chromium(address, "--dump-dom"))
        picture = os.path.join(self.folder, name + ".png")
        self.chromium(address, "--screenshot=" + picture)
        if "TANDEM_KEEP" in os.environ:  # keeps the directory for inspection
            shutil.copy(picture, os.environ["TANDEM_KEEP"])
        return document, pixels_of(picture, LINE)

    def progress(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                for line in page.read().decode().splitlines():
                    if line.startswith("tandem_step "):
                        return float(line.split()[1])
        except OSError:
            pass
        return 0

    def test_three_moments_of_a_run(self):
        port = free_ports(4)
        command = [os.path.join(script.BIN, "tandemrun"), "--servers=2", "--workers=2",
                   f"--status_port={port}", "--quiet", "job.pbtxt"]
        with processes.Background(command, self.folder, "job.out") as job:
            shares, lit = [], []
            for name, steps in (("early", 1), ("middle", 1500), ("later", 4000)):
                self.assertTrue(processes.wait_until(lambda: self.progress(port) >= steps, 120),
                                job.output())
                page, pixels = self.look(port, "trainer-" + name)
                self.assertEqual(set(page.texts["title"]), {"tandem-trainer 0 of job click"})
                self.assertEqual(page.texts["state"], ["training"])
                shares.append(self.progress(port))
                lit.append(pixels)
            self.assertEqual(sorted(shares), shares)
            for curve in ("training loss", "samples per second", "training auc", "test auc"):
                self.assertIn(curve, page.texts["h2"])
            self.assertEqual(page.tags["svg"], 4)
            self.assertGreater(min(lit[1:]), 1000, "curves can be seen")

            page, _ = self.look(port + 2, "pserver")
            self.assertEqual(page.texts["state"], ["serving"])
            for title in ("trainers", "slices", "tables"):
                self.assertIn(title, page.texts["h2"])
            self.assertIn("at work", page.texts["td"])

    def test_a_page_without_its_process_says_so(self):
        # The unchanged page, from a server that has no job.
        source = os.path.join(script.SOURCE, "common", "http")
        for part in ("css", "js"):
            shutil.copy(os.path.join(source, "status_page." + part), self.folder)
        shutil.copy(os.path.join(source, "status_page.html"),
                    os.path.join(self.folder, "index.html"))
        port = free_ports(1)
        command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
        with processes.Background(command, self.folder, "http.out") as server:
            self.assertTrue(processes.wait_until(
                lambda: "Serving" in server.output() or self.answers(port), 20), server.output())
            done = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
                 "--user-data-dir=" + os.path.join(self.folder, "browser"),
                 "--virtual-time-budget=2000", "--dump-dom", f"http://127.0.0.1:{port}/"],
                capture_output=True, text=True, timeout=120, check=False)
            page = Document(done.stdout)
            self.assertIn("no answer", page.texts["state"][0])
            self.assertEqual(page.attributes["state"][0]["class"], "lost")

    def answers(self, port):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
            return True
        except OSError:
            return False


if __name__ == "__main__":
    script.main()
