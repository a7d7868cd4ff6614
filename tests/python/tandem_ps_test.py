"""`tandem.ps` is the client of parameter servers under the name of the package `tandem`."""

import ast
import inspect
import os
import subprocess
import sys
import unittest

import script

script.need_modules("grpc", "numpy", "google.protobuf", package="python3-grpcio, python3-protobuf")
# pylint: disable=wrong-import-position
import numpy
import tandem_case as case
import tandem.ps
import tandem_pserver
from pserver_process import Servers


# Names of tandem.ps alone.
READER = ("Change", "Dense", "Follower", "Reader", "Rows", "VariableChange", "VariableFollower",
          "follow")


def signature(node):
    """Names and defaults of the parameters of a definition in the stub."""
    args = node.args
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    found = [(a.arg, d if d is None else ast.literal_eval(d)) for a, d in zip(args.args, defaults)]
    return [one for one in found if one[0] != "self"]


def real_signature(function):
    """The same of a function."""
    return [(p.name, None if p.default is p.empty else p.default)
            for p in inspect.signature(function).parameters.values()
            if p.name != "self" and p.kind != p.VAR_POSITIONAL]


class Names(unittest.TestCase):
    def test_both_packages_have_the_same_objects(self):
        self.assertEqual(sorted(tandem.ps.__all__), sorted([*tandem_pserver.__all__, *READER]))
        for name in tandem_pserver.__all__:
            self.assertIs(getattr(tandem.ps, name), getattr(tandem_pserver, name), name)

    def test_import_tandem_imports_no_grpc(self):
        program = ("import sys, tandem\n"
                   "print(sorted({'grpc', 'google.protobuf', 'tandem_pserver'} & set(sys.modules)))\n"
                   "import tandem.ps\nprint('grpc' in sys.modules)\n")
        said = subprocess.run([sys.executable, "-B", "-c", program], check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": case.PACKAGES})
        self.assertEqual(said.stdout, "[]\nTrue\n")

    def test_the_stub_has_the_signatures_of_the_client(self):
        with open(os.path.join(case.PACKAGES, "tandem", "ps.pyi"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        checked = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self.assertEqual(signature(node), real_signature(getattr(tandem.ps, node.name)))
                checked.add(node.name)
            elif isinstance(node, ast.ClassDef):
                self.same_class(node, getattr(tandem.ps, node.name))
                checked.add(node.name)
        self.assertEqual(checked | {"Block", *READER}, set(tandem.ps.__all__))

    def same_class(self, node, kind):
        if hasattr(kind, "_fields"):
            fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
            self.assertEqual(tuple(n.target.id for n in fields), kind._fields)
            defaults = {n.target.id: ast.literal_eval(n.value) for n in fields if n.value}
            self.assertEqual(defaults, kind._field_defaults)
            return
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        public = {name for name, value in vars(kind).items()
                  if inspect.isfunction(value) and not name.startswith("_")}
        self.assertEqual({name for name in methods if not name.startswith("_")}, public)
        for name, method in methods.items():
            with self.subTest(f"{kind.__name__}.{name}"):
                self.assertEqual(signature(method), real_signature(getattr(kind, name)))


class Training(unittest.TestCase):
    def test_a_step(self):
        with Servers(script.BUILD, 1, job="mine") as servers, \
                tandem.ps.Client(servers.addresses, job="mine") as client:
            params = {"w": numpy.ones((2, 3), numpy.float32)}
            client.configure({"w": (2, 3)}, tables={"t": tandem.ps.Table(100, 2)})
            step = client.init_or_fetch(params)
            rows = {"t": (numpy.array([7]), numpy.ones((1, 2), numpy.float32))}
            step = client.push_pull(step, 0.5, {"w": numpy.ones((2, 3), numpy.float32)}, params, rows)
            self.assertEqual(step, 1)
            numpy.testing.assert_array_equal(params["w"], 0.5)
            numpy.testing.assert_array_equal(client.pull_rows("t", [6, 7]), [[0, 0], [-0.5, -0.5]])
            client.complete()


if __name__ == "__main__":
    script.main()
