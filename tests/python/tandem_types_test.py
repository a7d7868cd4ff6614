"""The type hints of the package `tandem` hold, and its stub describes the module."""

import ast
import os
import subprocess
import sys
import tempfile
import unittest

import script
import tandem_case as case
from tandem_case import tandem

PACKAGE = os.path.join(case.PACKAGES, "tandem")
USER = """
import tandem
x = tandem.data("x", [None, 4])
y = tandem.layers.fc(x, 3, act="relu")
exe = tandem.Executor()
array, = exe.run(feed={"x": [[1.0, 2.0, 3.0, 4.0]]}, fetch_list=[y])
reveal_type(array)
tensor, = exe.run(feed={"x": [[1.0, 2.0, 3.0, 4.0]]}, fetch_list=[y], return_numpy=False)
reveal_type(tensor)
"""


def mypy(*args, **environment):
    with tempfile.TemporaryDirectory(prefix="tandem-mypy-") as folder:
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={folder}", *args],
            capture_output=True, text=True, check=False, env={**os.environ, **environment})


class Types(unittest.TestCase):
    def test_the_package_is_strict(self):
        # torch/ uses packages without types: torch as far as Debian has it, and tandem_pserver.
        done = mypy(PACKAGE, "--exclude", "/torch/")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_program_of_a_user_is_checked(self):
        with tempfile.TemporaryDirectory(prefix="tandem-user-") as folder:
            path = os.path.join(folder, "user.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(USER)
            done = mypy(path, MYPYPATH=case.PACKAGES)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn('"numpy.ndarray[Any', done.stdout)
            self.assertIn('"tandem._core.Tensor"', done.stdout)
            with open(path, "a", encoding="utf-8") as file:
                file.write('tandem.layers.fc(x, "3")\ntandem.ops.relu(3)\ntandem.ops.relux(x)\n')
            said = mypy(path, MYPYPATH=case.PACKAGES).stdout
            self.assertIn('"fc" has incompatible type "str"', said)
            self.assertIn('"relu" has incompatible type "int"', said)
            self.assertIn('no attribute "relux"', said)

    def test_the_stub_has_the_names_of_the_module(self):
        with open(os.path.join(PACKAGE, "_core.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        defined = (ast.FunctionDef, ast.ClassDef)
        stub = {node.name: node for node in tree.body if isinstance(node, defined)}
        core = tandem._core
        self.assertEqual(set(stub), {name for name in dir(core) if not name.startswith("__")})
        for name, node in stub.items():
            if not isinstance(node, ast.ClassDef):
                continue
            members = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            members |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
            real = {m for m in vars(getattr(core, name))
                    if not m.startswith("__") or m in ("__init__", "__contains__", "__array__",
                                                       "__dlpack__", "__dlpack_device__")}
            if "__init__" not in members:  # Python does not make objects of this class
                real.discard("__init__")
            with self.subTest(name):
                self.assertEqual(members, real)

    def test_the_types_of_the_operators_are_those_of_the_table(self):
        path = os.path.join(script.SOURCE, "trainer/python/tandem/ops.pyi")
        made = tandem.operators.stub()
        if os.environ.get("TANDEM_UPDATE"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(made)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), made, "run this test with TANDEM_UPDATE=1")

    def test_everything_public_has_a_docstring(self):
        for file in sorted(os.listdir(PACKAGE)):
            if not file.endswith(".py"):
                continue
            with open(os.path.join(PACKAGE, file), encoding="utf-8") as text:
                tree = ast.parse(text.read())
            self.assertTrue(ast.get_docstring(tree), file)
            for node in ast.walk(tree):
                named = isinstance(node, (ast.FunctionDef, ast.ClassDef))
                if not named or node.name.startswith("_") or is_nested(tree, node):
                    continue
                overload = isinstance(node, ast.FunctionDef) and any(
                    isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
                if not overload:
                    self.assertTrue(ast.get_docstring(node), f"{file}: {node.name}")


def is_nested(tree, node):
    """Whether a function has this node inside."""
    return any(node in ast.walk(f) for f in ast.walk(tree)
               if isinstance(f, ast.FunctionDef) and f is not node)


if __name__ == "__main__":
    script.need_modules("mypy", package="mypy")
    script.main()
