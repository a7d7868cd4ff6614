"""What tests that drive tandem-pserver from Python share."""

import os
import sys
import unittest

import script

script.need_modules("grpc", "numpy", package="python3-grpcio, python3-numpy")
import numpy  # pylint: disable=wrong-import-position

from pserver_process import Servers  # pylint: disable=wrong-import-position

sys.path.insert(0, os.path.join(script.BUILD, "python"))
import tandem_pserver  # pylint: disable=wrong-import-position
from tandem_pserver import PserverError  # pylint: disable=wrong-import-position

F32 = numpy.float32
SHAPES = {"fc.w": (300, 40), "fc.b": (40,), "scale": (1,)}
SMALL_BLOCKS = {"min_block_size": 1000}  # fc.w is split


def first_values():
    random = numpy.random.default_rng(7)
    return {name: random.standard_normal(shape, F32) for name, shape in SHAPES.items()}


def gradients(trainer, step):
    random = numpy.random.default_rng(1000 * step + trainer)
    return {name: random.standard_normal(shape, F32) for name, shape in SHAPES.items()}


def connect(servers, **options):
    options.setdefault("step_timeout", 30.0)
    return tandem_pserver.Client(servers.addresses, **options)


class Test(unittest.TestCase):
    def servers(self, count, *flags, **options):
        servers = Servers(script.BUILD, count, *flags, **options)
        self.addCleanup(servers.__exit__)
        return servers.__enter__()

    def client(self, servers, **options):
        client = connect(servers, **options)
        self.addCleanup(client.close)
        return client

    def fails(self, code, words, call, *args, **options):
        with self.assertRaises(PserverError) as caught:
            call(*args, **options)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, str(caught.exception))

    def assert_same(self, got, want):
        for name, values in want.items():
            numpy.testing.assert_array_equal(got[name], values, err_msg=name)
