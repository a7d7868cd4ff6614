"""The documentation as a site. All links, anchors and source files that pages name exist. Each page
is in the navigation, and each diagram is the one of its source. References agree with the source.
`mkdocs build --strict` has no warning, and the site loads nothing from the network."""

import glob
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import script

DOCS = os.path.join(script.SOURCE, "docs")
CONFIG = os.path.join(script.SOURCE, "deploy", "docs", "mkdocs.yml")
DIAGRAMS_MIN = 12
# Variables of the environment in the source: names with the prefix of a family, and single ones.
VARIABLE = (r'"((?:TANDEM|PADDLE|OMPI_COMM_WORLD|SLURM|NCCL)_[A-Z0-9_]+|'
            r"FLAGS_(?:selected_gpus|START_PORT)|(?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|"
            r"MASTER_(?:ADDR|PORT)|"
            r'POD_IP|TRAINING_ROLE|OMP_WAIT_POLICY|XDG_RUNTIME_DIR|NO_COLOR|TERM)"')
SOURCE_PATH = (r"`((?:collective|common|deploy|kernels|proto|pserver|tests|trainer)/[\w./-]+"
               r"\.(?:cc|cu|h|pbtxt|proto|py|sh|yml))`")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pages():
    top = [os.path.join(script.SOURCE, name) for name in
           ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return top + sorted(glob.glob(os.path.join(DOCS, "**", "*.md"), recursive=True))


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """Anchors that a code host and mkdocs give the headings of a page, and those that it sets."""
    found = set(re.findall(r'<a id="([^"]+)"', text))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.+)$", prose, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"))
    return found


def writer(name):
    """A module of deploy/docs, which writes pages or pictures."""
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(script.SOURCE, "deploy", "docs", f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Site(unittest.TestCase):
    def test_links(self):
        wrong, count = [], 0
        for page in pages():
            text = read(page)
            for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
                if re.match(r"[a-z]+:", link):
                    continue
                count += 1
                path, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(page), path)) \
                    if path else page
                if not os.path.exists(target):
                    wrong.append(f"{page}: {link} does not exist")
                elif anchor and target.endswith(".md") and anchor not in anchors(read(target)):
                    wrong.append(f"{page}: {link} has no such heading")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(count, 100)

    def test_each_page_is_in_the_navigation(self):
        named = set(re.findall(r": ([\w./-]+\.md)$", read(CONFIG), re.M))
        there = {os.path.relpath(p, DOCS) for p in pages() if p.startswith(DOCS + os.sep)}
        self.assertEqual(named, there)

    def test_pages_that_sources_and_messages_name_exist(self):
        listed = subprocess.run(["git", "-C", script.SOURCE, "grep", "-ohE",
                                 r"\bdocs/[a-zA-Z0-9_/-]+\.md"], text=True, capture_output=True,
                                check=False)
        if listed.returncode != 0:
            self.skipTest("the source tree is no git checkout")
        wrong = {name for name in listed.stdout.split()
                 if not os.path.exists(os.path.join(script.SOURCE, name))}
        self.assertEqual(wrong, set())

    def test_source_files_that_pages_name_exist(self):
        wrong, count = [], 0
        for page in pages():
            if "benchmarks" in page or page.endswith(("track-record.md", "CHANGELOG.md")):
                continue  # they describe earlier versions
            for path in re.findall(SOURCE_PATH, read(page)):
                count += 1
                # x stands for the reader's own name.
                if not re.search(r"/x[._]", path) and \
                        not os.path.exists(os.path.join(script.SOURCE, path)):
                    wrong.append(f"{page}: {path}")
        self.assertEqual(wrong, [], "\n".join(wrong))
        self.assertGreater(count, 200)

    def test_diagrams_are_those_of_their_sources(self):
        module = writer("diagrams")
        names = module.sources(os.path.join(DOCS, "diagrams"))
        self.assertGreaterEqual(len(names), DIAGRAMS_MIN)
        shown = "".join(read(page) for page in pages())
        for path in names:
            name = os.path.splitext(path)[0] + ".svg"
            source, svg = read(path), read(name)
            hint = f"{name} is not current; run deploy/docs/diagrams.py"
            self.assertTrue(svg.startswith(module.stamp(source)), hint)
            if path.endswith(".seq"):
                self.assertEqual(svg, module.picture(path, source), hint)
            self.assertIn(os.path.basename(name), shown, "no page shows it")
        svgs = {os.path.splitext(p)[0] for p in glob.glob(os.path.join(DOCS, "diagrams", "*.svg"))}
        self.assertEqual(svgs, {os.path.splitext(p)[0] for p in names})

    def test_references_are_those_of_their_proto_files(self):
        module = writer("references")
        for name, (_, source, _, _) in module.PAGES.items():
            page = read(os.path.join(DOCS, "reference", name))
            self.assertEqual(page, module.page(name),
                             f"{name} is not current; run deploy/docs/references.py")
            # No field, value or call is lost on the way.
            proto = re.sub(r"//.*", "", read(os.path.join(script.SOURCE, "proto", source)))
            entries = len(re.findall(r"\w+ = -?\d+\s*[;\[]", proto))
            self.assertEqual(len(re.findall(r"^\| `", page, re.M)), entries, name)
            self.assertEqual(len(re.findall(r"^### ", page, re.M)),
                             len(re.findall(r"^\s*rpc ", proto, re.M)), name)

    def test_the_page_of_the_versioned_service_has_all_calls_and_codes(self):
        page = read(os.path.join(DOCS, "reference", "grpc.md"))
        proto = read(os.path.join(script.SOURCE, "proto", "pserver_v1.proto"))
        calls = re.findall(r"^\s*rpc (\w+)", proto, re.M)
        self.assertGreater(len(calls), 20)
        self.assertEqual(re.findall(r"^\| (\w+) \| \[", page, re.M), calls)
        codes = re.findall(r"^// ([A-Z_]+): ",
                           read(os.path.join(script.SOURCE, "proto", "pserver.proto")), re.M)
        self.assertGreater(len(codes), 6)
        for code in codes:
            self.assertRegex(page, rf"(?m)^\| {code} \| \w")

    def test_pages_of_programs_are_those_of_their_help(self):
        module = writer("commands")
        for name in module.PROGRAMS:
            page = read(os.path.join(DOCS, "reference", "commands", f"{name}.md"))
            self.assertEqual(page, module.page(name, script.BIN),
                             f"{name}.md is not current; run deploy/docs/commands.py build/bin")
        self.assertEqual(
            {f"{name}.md" for name in module.PROGRAMS},
            set(os.listdir(os.path.join(DOCS, "reference", "commands"))))

    def test_cpp_page_names_the_installed_headers(self):
        page = read(os.path.join(DOCS, "reference", "cpp.md"))
        self.assertEqual(set(re.findall(r"^\| `([\w/.]+\.h)` ", page, re.M)),
                         set(writer("cpp_reference").headers()))

    def test_python_reference_is_that_of_the_package(self):
        module, page = writer("references"), read(os.path.join(DOCS, "reference", "python.md"))
        self.assertEqual(page, module.python_page(),
                         "python.md is not current; run deploy/docs/references.py")
        public = []
        readers = [os.path.join("trainer/python/tandem", name) for name in module.READERS]
        for path in (os.path.join(module.PYTHON, "__init__.py"), *readers):
            package = read(os.path.join(script.SOURCE, path))
            public += re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", package, re.S)[1])
        self.assertGreater(len(public), 8)
        self.assertEqual(set(re.findall(r"^## (\w+)$", page, re.M)), set(public))

    def test_each_row_of_the_glossary_is_whole(self):
        page = read(os.path.join(DOCS, "concepts", "glossary.md")).partition("## Former names")[0]
        rows = [line.strip("|").split(" | ") for line in page.splitlines()
                if line.startswith("| ") and not line.startswith("| word ")]
        self.assertGreater(len(rows), 110)
        words = [row[0].strip() for row in rows]
        self.assertEqual(len(words), len(set(words)), "a word has two rows")
        for row in rows:
            self.assertEqual(len(row), 4, row)
            self.assertTrue(row[0].strip() and row[1].strip(), row)
            self.assertIn("`", row[3], f"{row[0]}: where is it in the code?")

    def test_exit_codes_are_those_of_the_source(self):
        header = read(os.path.join(script.SOURCE, "common", "base", "status.h"))
        codes = set(re.findall(r"(kExit\w+) = (\d+)", header))
        self.assertGreater(len(codes), 5)
        page = read(os.path.join(DOCS, "reference", "exit-codes.md"))
        self.assertEqual({(name, code) for code, name in re.findall(r"^\| (\d+) \| `(\w+)`", page,
                                                                   re.M)}, codes)

    def test_files_and_flags_are_those_of_the_source(self):
        text = ""
        for folder in ("deploy", "pserver", "trainer", "kernels", "proto"):
            for ending in ("cc", "h", "proto"):
                top = os.path.join(script.SOURCE, folder)
                for path in glob.glob(os.path.join(top, "**", "*." + ending), recursive=True):
                    text += "".join(re.findall(r'"[^"\n]*"|DEFINE_\w+\(\w+', read(path)))
        page = read(os.path.join(DOCS, "reference", "files-and-ports.md"))
        cells = "".join(re.findall(r"^\| (`[^|]*) \|", page, re.M))
        names = re.findall(r"`([^`]+)`", cells)
        self.assertGreater(len(names), 20)
        for name in names:
            # N stands for a number.
            for part in re.split(r"(?<![A-Z])N(?![A-Z])", name.removeprefix("--")):
                self.assertTrue(part.strip(".") in text, f"{name}: no source has {part}")

    def test_environment_variables_are_those_of_the_source(self):
        found = set()
        for folder in ("collective", "common", "deploy", "kernels", "pserver", "trainer"):
            top = os.path.join(script.SOURCE, folder)
            for ending in ("cc", "py"):
                for path in glob.glob(os.path.join(top, "**", "*." + ending), recursive=True):
                    found |= set(re.findall(VARIABLE, read(path)))
        self.assertGreater(len(found), 30)
        page = read(os.path.join(DOCS, "reference", "environment.md"))
        cells = "".join(re.findall(r"^\| (`[^|]*) \|", page, re.M))
        self.assertEqual(set(re.findall(r"`(\w+)`", cells)), found)

    def test_mkdocs_builds_it_without_a_warning(self):
        if shutil.which("mkdocs") is None:
            self.skipTest("no mkdocs (Debian's packages mkdocs and mkdocs-material)")
        folder = tempfile.mkdtemp(prefix="tandem-site-")
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run(["mkdocs", "build", "--strict", f"--config-file={CONFIG}",
                               f"--site-dir={folder}"], text=True, capture_output=True,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("WARNING", done.stderr)
        html = glob.glob(os.path.join(folder, "**", "*.html"), recursive=True)
        self.assertGreater(len(html), 30)
        for page in html:
            text = read(page)
            loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"', text)
            loaded += re.findall(r'<link[^>]*\srel="(?:stylesheet|icon|preload)"[^>]*>', text)
            self.assertEqual([name for name in loaded if "//" in name], [], page)
        cpp = os.path.join(folder, "reference", "cpp")
        if shutil.which("doxygen") is None:
            self.assertFalse(os.path.exists(cpp))
            self.skipTest("no doxygen (Debian's package doxygen): the C++ reference was not built")
        client = read(glob.glob(os.path.join(cpp, "class*PsClient.html"))[0])
        self.assertIn("Blocks until every trainer that has not completed has called Barrier",
                      client)
        self.assertIn('href="cpp/annotated.html"',
                      read(os.path.join(folder, "reference", "cpp.html")))


if __name__ == "__main__":
    script.main()
