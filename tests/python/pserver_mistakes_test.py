"""What the Python client says of a forgotten gradient, a server that is gone, another step, and threads that
spin beside a server."""

import os
import sys
import time
import types
import unittest.mock
import warnings

from pserver_case import F32, SHAPES, SMALL_BLOCKS, Test, first_values, gradients
import numpy
from tandem_pserver import PserverError, Table, thread_advice


class Steps(Test):
    def configured(self, count=1, **options):
        client = self.client(self.servers(count))
        client.configure(SHAPES, **SMALL_BLOCKS, **options)
        self.params = first_values()
        client.init_or_fetch(self.params)
        return client

    def without(self, *names):
        return {name: g for name, g in gradients(0, 0).items() if name not in names}

    def refused_at_once(self, words, call, *args):
        begin = time.monotonic()
        with self.assertRaisesRegex(ValueError, words) as caught:
            call(*args)
        self.assertIn("[TD4026]; hint: push all", str(caught.exception))
        self.assertLess(time.monotonic() - begin, 15)  # step_timeout is 30

    def test_a_forgotten_gradient_is_named(self):
        client = self.configured()
        self.refused_at_once(r'step 0 .* no gradient of "fc.b", "scale" was pushed',
                             client.push_pull, 0, 1.0, self.without("fc.b", "scale"), self.params)
        client.push_pull(0, 1.0, gradients(0, 0), self.params)  # nothing was sent
        client.push(1, 1.0, self.without("scale"))
        self.refused_at_once(r'step 1 .* no gradient of "scale"', client.pull, self.params, 2)
        client.pull(self.params, 1)

    def test_a_forgotten_table_is_named(self):
        client = self.configured(tables={"emb": Table(height=1000, dim=4)})
        self.refused_at_once(r'no gradient of "emb" was pushed', client.push_pull, 0, 1.0,
                             gradients(0, 0), self.params)
        no_rows = {"emb": ([], numpy.empty((0, 4), F32))}
        self.assertEqual(client.push_pull(0, 1.0, gradients(0, 0), self.params, no_rows), 1)

    def test_a_step_of_several_pushes(self):
        client = self.configured(2)
        client.push(0, 1.0, self.without("fc.b"))
        self.assertEqual(client.push_pull(0, 1.0, {"fc.b": gradients(0, 0)["fc.b"]}, self.params), 1)
        self.assert_same(self.params, {name: v - gradients(0, 0)[name]
                                       for name, v in first_values().items()})

    def test_a_sync_needs_no_other_gradient(self):
        client = self.configured(mode="a_sync")
        client.push_pull(0, 1.0, self.without("fc.b"), self.params)

    def test_another_step_is_named_as_given(self):
        client = self.configured()
        self.fails("FAILED_PRECONDITION", "step=7 of this call, step 8 of the job: trainer 0 "
                   "pushes for step 8, but this server is at step 1", client.push, 7, 1.0,
                   gradients(0, 0))

    def test_a_server_that_is_gone_is_named(self):
        servers = self.servers(2)
        client = self.client(servers, step_timeout=0.5)
        client.configure(SHAPES, **SMALL_BLOCKS)
        params = first_values()
        client.init_or_fetch(params)
        servers.kill(1)
        with self.assertRaises(PserverError) as caught:
            client.push_pull(0, 1.0, gradients(0, 0), params)
        self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")
        self.assertRegex(str(caught.exception),
                         rf"pserver 1 \({servers.addresses[1]}\): Push: .*the server did not reply "
                         r"within [0-9.]+ s ")
        self.assertIn("[TD4025]; hint: start it again", str(caught.exception))


class Threads(Test):
    def setUp(self):
        thread_advice._warned = False  # pylint: disable=protected-access

    def said(self, addresses, threads=2, **environment):
        torch = types.SimpleNamespace(get_num_threads=lambda: threads)
        with unittest.mock.patch.dict(sys.modules, torch=torch), \
                unittest.mock.patch.dict(os.environ, environment), \
                warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for name in {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} - environment.keys():
                os.environ.pop(name, None)
            thread_advice.warn_of_spinning(addresses)
        return [str(w.message) for w in caught]

    def test_who_is_warned(self):
        here, there = "127.0.0.1:7000", "10.1.2.3:7000"
        self.assertEqual(self.said([there]), [])
        self.assertEqual(self.said([here], threads=1), [])
        self.assertEqual(self.said([here], OMP_WAIT_POLICY="PASSIVE"), [])
        self.assertEqual(self.said([here], GOMP_SPINCOUNT="0"), [])
        said = self.said([there, here], OMP_WAIT_POLICY="active")
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "^2 OpenMP threads .* slows pserver 127.0.0.1:7000 on this host ")
        self.assertIn("[TD4027]; hint: start Python with OMP_WAIT_POLICY=passive", said[0])
        self.assertEqual(self.said([here]), [], "once a process")

    def test_a_client_warns_at_its_first_push(self):
        client = self.client(self.servers(1))
        client.configure(SHAPES)
        client.init_or_fetch(first_values())
        torch = types.SimpleNamespace(get_num_threads=lambda: 2)
        with unittest.mock.patch.dict(sys.modules, torch=torch), \
                unittest.mock.patch.dict(os.environ, OMP_WAIT_POLICY="active"), \
                self.assertWarnsRegex(RuntimeWarning, "TD4027"):
            client.push(0, 1.0, gradients(0, 0))


if __name__ == "__main__":
    import script
    script.main()
