"""The Python client while servers are killed, go back to a cut, and rows move between them."""

import os
import subprocess
import threading

from pserver_case import F32, SHAPES, SMALL_BLOCKS, Test, first_values, gradients
import numpy
import script
import tandem_pserver
from tandem_pserver import Table


class Faults(Test):
    def test_a_server_gets_again_what_it_knows_the_order_of(self):
        servers = self.servers(2, "--durability=replayable")
        client = self.client(servers)
        client.configure(SHAPES, mode="a_sync", **SMALL_BLOCKS)
        params, want = first_values(), first_values()
        client.init_or_fetch(params)
        for step in range(12):
            if step % 4 == 3:
                servers.kill(step % 2)
                servers.start(step % 2)
            client.push_pull(step, 1.0, gradients(0, step), params)
            want = {name: v - gradients(0, step)[name] for name, v in want.items()}
            self.assert_same(params, want)
        client.complete()
        self.assertEqual([s.checkpoint_version for s in client.status()], [12, 12])
        self.assertEqual(client._calls.kept.bytes_max, 1 << 30)  # pylint: disable=protected-access

    def test_calls_continue_on_a_server_that_is_restarted_by_sigterm(self):
        """Some calls of a server that ends fail with CANCELLED."""
        servers = self.servers(1, "--durability=logged")
        client = self.client(servers)
        client.configure({"v": (3,)}, mode="a_sync")
        params, one = {"v": numpy.zeros(3, F32)}, {"v": numpy.ones(3, F32)}
        client.init_or_fetch(params)
        over, pushes = threading.Event(), 0

        def restart():
            for _ in range(15):
                servers.terminate(0)
                servers.start(0)
            over.set()

        restarting = threading.Thread(target=restart)
        restarting.start()
        self.addCleanup(restarting.join)
        while not over.is_set():
            client.push_pull(pushes, 1.0, one, params)
            pushes += 1
        self.assert_same(params, {"v": numpy.full(3, -pushes, F32)})

    def test_what_is_kept_has_a_bound(self):
        servers = self.servers(1, "--durability=replayable", "--keep_pushes_mb=1")
        client = self.client(servers)
        client.configure(SHAPES, mode="a_sync")
        client.init_or_fetch(first_values())
        for step in range(50):  # pushes of 48 kB
            client.push(step, 1.0, gradients(0, step))
            self.assertLess(client._calls.kept.bytes, 1 << 20)  # pylint: disable=protected-access
        self.assertGreater(client.status()[0].checkpoint_version, 0)

    def ask(self, servers, *args):
        return subprocess.run(
            [os.path.join(script.BIN, "tandem"), *args, "--job=job", "--timeout_s=60",
             "--pservers=" + ",".join(servers.addresses[:2])],
            check=False, capture_output=True, text=True)

    def tandem(self, servers, *args):
        """What `tandem` says of the job of the first two servers. On a busy machine a cut may be
        given up: then it is taken another time."""
        for _ in range(20):
            done = self.ask(servers, *args)
            if done.returncode == 0:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_all_servers_go_back_to_one_state(self):
        servers = self.servers(2)
        client = self.client(servers)
        client.configure(SHAPES, mode="a_sync", **SMALL_BLOCKS)
        params = first_values()
        client.init_or_fetch(params)
        client.push_pull(0, 1.0, gradients(0, 0), params)
        self.assertIn("new pushes waited for", self.tandem(servers, "save", "--snapshot"))
        then = {name: value.copy() for name, value in params.items()}
        client.push_pull(1, 1.0, gradients(0, 1), params)
        self.assertIn("on 2 pservers", self.tandem(servers, "restore", "--snapshot"))
        client.pull(params)
        self.assert_same(params, then)

    def test_no_server_goes_back_alone(self):
        servers = self.servers(2)
        client = self.client(servers)
        shapes = {"one": (10,), "other": (10,)}
        client.configure(shapes)
        params = {name: numpy.zeros(shape, F32) for name, shape in shapes.items()}
        grads = {name: numpy.ones(shape, F32) for name, shape in shapes.items()}
        client.init_or_fetch(params)
        client.push(0, 1.0, {"one": grads["one"]})  # only that server has done the step
        self.assertIn("of different steps", self.ask(servers, "save").stderr)
        client.push(0, 1.0, {"other": grads["other"]})
        refused = self.ask(servers, "restore")
        self.assertEqual((refused.returncode, refused.stdout), (78, ""), refused.stderr)
        self.assertIn("versions 0 and 1 [TD7012]", refused.stderr)
        self.assertEqual([s.version for s in client.status()], [1, 1])

        self.assertEqual(self.ask(servers, "save").stderr, "")
        client.push_pull(1, 1.0, grads, params)
        self.assertEqual([s.version for s in client.status()], [2, 2])
        servers.kill(1)
        refused = self.ask(servers, "restore")
        self.assertEqual((refused.returncode, refused.stdout), (69, ""), refused.stderr)
        servers.start(1)
        self.assertEqual([s.version for s in client.status()], [2, 1])
        self.assertIn("restored version 1", self.tandem(servers, "restore"))

    def test_rows_that_move_are_followed(self):
        servers = self.servers(3, "--durability=logged", "--wal_sync=none")
        client = tandem_pserver.Client(servers.addresses[:2])
        self.addCleanup(client.close)
        client.configure(SHAPES, mode="a_sync", tables={"emb": Table(height=1000, dim=4)})
        params = first_values()
        client.init_or_fetch(params)
        ids, want = numpy.arange(0, 1000, 7), numpy.zeros((143, 4), F32)

        def push(step):
            grad = numpy.full((ids.size, 4), step + 1, F32)
            client.push_pull(step, 1.0, gradients(0, step), params, {"emb": (ids, grad)})
            numpy.subtract(want, grad, want)

        push(0)
        push(1)
        self.tandem(servers, "rebalance", f"--add={servers.addresses[2]}")
        push(2)  # chosen by the old map
        push(3)
        numpy.testing.assert_array_equal(client.pull_rows("emb", ids), want)
        stored, values = client.pull_table("emb")
        numpy.testing.assert_array_equal(stored, ids)
        numpy.testing.assert_array_equal(values, want)
        self.assertGreater(min(s.rows for s in client.status()), 0)
        self.assertGreater(min(s.elements for s in client.status()), 0)
        self.assertEqual(len(client.status()), 3)
        dense = first_values()
        for step in range(4):
            dense = {name: v - gradients(0, step)[name] for name, v in dense.items()}
        self.assert_same(params, dense)
        client.complete()

    def test_rows_that_move_between_steps(self):
        servers = self.servers(3, "--durability=logged", "--wal_sync=none")
        client = tandem_pserver.Client(servers.addresses[:2], step_timeout=60.0)
        self.addCleanup(client.close)
        client.configure(SHAPES, mode="sync", tables={"emb": Table(height=1000, dim=4)})
        params = first_values()
        dense = first_values()
        step = client.init_or_fetch(params)
        ids, want = numpy.arange(0, 1000, 7), numpy.zeros((143, 4), F32)

        def push():
            nonlocal step
            some = slice(step % 5, None, 3)  # not every server has some of these ids
            grad = numpy.full((ids[some].size, 4), step % 9 + 1, F32)
            want[some] -= grad
            for name, values in gradients(0, step % 9).items():
                dense[name] -= values
            step = client.push_pull(step, 1.0, gradients(0, step % 9), params,
                                    {"emb": (ids[some], grad)})

        def while_training(*args):
            said = []
            moving = threading.Thread(target=lambda: said.append(self.tandem(servers, *args)))
            moving.start()
            while moving.is_alive():
                push()
            moving.join()
            self.assertTrue(said)
            push()
            return said[0]

        push()
        while_training("rebalance", f"--add={servers.addresses[2]}")
        self.assertGreater(min(s.rows for s in client.status()), 0)
        self.assertGreater(client.status()[2].elements, 0)
        numpy.testing.assert_array_equal(client.pull_rows("emb", ids, step), want)
        self.assertIn("is empty and receives no more rows", while_training("drain", "--pserver=2"))
        self.assertEqual(len(client.status()), 2)  # without the one that moved everything away
        stored, values = client.pull_table("emb")
        numpy.testing.assert_array_equal(stored, ids)
        numpy.testing.assert_array_equal(values, want)
        self.assert_same(params, dense)
        client.complete()


if __name__ == "__main__":
    script.main()
