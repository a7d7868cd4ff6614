"""Conformance of tandem-pserver, driven from Python alone: contract, arithmetic, and refusals."""

import os
import pickle
import subprocess
import tempfile
import threading

from pserver_case import F32, SHAPES, SMALL_BLOCKS, Test, connect, first_values, gradients
import numpy
import script
import tandem_pserver
from tandem_pserver import PserverError, Table, row_buckets


class Momentum:
    """velocity = mu velocity + g; p = p - rate velocity, each step rounded to f32."""

    def __init__(self, params, mu):
        self.params = {name: value.copy() for name, value in params.items()}
        self.velocity = {name: numpy.zeros_like(value) for name, value in params.items()}
        self.mu = F32(mu)

    def step(self, grads, rate):
        for name, g in grads.items():
            self.velocity[name] = self.mu * self.velocity[name] + g
            self.params[name] = self.params[name] - F32(rate) * self.velocity[name]


class Training(Test):
    def run_sync(self, servers_count, trainers, steps=8):
        servers = self.servers(servers_count, trainers=trainers)
        results, failures = [None] * trainers, []

        def train(trainer):
            try:
                with connect(servers, trainer=trainer, trainers=trainers) as client:
                    client.configure(SHAPES, "momentum", {"mu": 0.9}, **SMALL_BLOCKS)
                    params = first_values()
                    if trainer > 0:  # the first trainer's values count
                        params = {name: numpy.zeros_like(v) for name, v in params.items()}
                    step = client.init_or_fetch(params)
                    while step < steps:
                        step = client.push_pull(step, 0.05, gradients(trainer, step), params)
                    client.barrier("end")
                    client.complete()
                    results[trainer] = params
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=train, args=(t,)) for t in range(trainers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        serial = Momentum(first_values(), 0.9)
        for step in range(steps):
            parts = [gradients(t, step) for t in range(trainers)]
            while len(parts) > 1:  # the servers add as a binary tree
                parts = [{n: a[n] + b[n] for n in a} for a, b in zip(parts[::2], parts[1::2])] + (
                    parts[-1:] if len(parts) % 2 else [])
            serial.step(parts[0], 0.05)
        for params in results:
            self.assert_same(params, serial.params)

    def test_one_trainer(self):
        self.run_sync(1, 1)

    def test_two_servers_two_trainers(self):
        self.run_sync(2, 2)

    def test_three_servers_three_trainers(self):
        self.run_sync(3, 3)

    def test_of_several_addresses_the_one_that_answers_serves(self):
        (address,) = self.servers(1, trainers=1).addresses
        with tandem_pserver.Client(["127.0.0.1:1|" + address], step_timeout=30.0) as client:
            client.configure(SHAPES, "momentum", {"mu": 0.9}, **SMALL_BLOCKS)
            params = first_values()
            step = client.init_or_fetch(params)
            self.assertEqual(client.push_pull(step, 0.05, gradients(0, step), params), step + 1)
            client.complete()
        with self.assertRaisesRegex(ValueError, "expected .host:port. or"):
            tandem_pserver.Client([address + "|127.0.0.1"])

    def test_a_sync_applies_each_push_at_once(self):
        servers = self.servers(2)
        client = self.client(servers)
        client.configure(SHAPES, mode="a_sync", **SMALL_BLOCKS)
        params = first_values()
        client.init_or_fetch(params)
        for step in range(3):
            client.push(step, 0.5, {"fc.b": numpy.full(40, 2.0, F32)})
        pulled = {"fc.b": numpy.empty(40, F32)}
        client.pull(pulled)
        want = first_values()["fc.b"]
        for _ in range(3):
            want = want - F32(0.5) * F32(2.0)
        numpy.testing.assert_array_equal(pulled["fc.b"], want)

    def test_dispatchers_and_whole_variables(self):
        for dispatcher in ("round_robin", "hash_name", "size_balanced"):
            for cut in (True, False):
                servers = self.servers(3)
                client = self.client(servers)
                client.configure(SHAPES, slice_var_up=cut, dispatcher=dispatcher, **SMALL_BLOCKS)
                params = first_values()
                client.init_or_fetch(params)
                client.push_pull(0, 1.0, gradients(0, 0), params)
                want = {n: v - gradients(0, 0)[n] for n, v in first_values().items()}
                self.assert_same(params, want)
                elements = [s.elements for s in client.status()]
                self.assertEqual(sum(elements), 300 * 40 + 40 + 1)

    def test_a_job_goes_on_from_the_servers_checkpoint(self):
        servers = self.servers(2)
        client = self.client(servers)
        client.configure(SHAPES, "momentum", {"mu": 0.9}, **SMALL_BLOCKS)
        params = first_values()
        client.init_or_fetch(params)
        for step in range(3):
            client.push_pull(step, 0.05, gradients(0, step), params)
        self.assertEqual(client.save(), 3)
        for i in range(2):
            servers.kill(i)
            servers.start(i)
        again = self.client(servers)
        state = again.configure(SHAPES, "momentum", {"mu": 0.9}, **SMALL_BLOCKS)
        self.assertEqual(state, (True, True, 3))
        fetched = {name: numpy.zeros(shape, F32) for name, shape in SHAPES.items()}
        self.assertEqual(again.init_or_fetch(fetched), 3)
        self.assert_same(fetched, params)
        serial = Momentum(first_values(), 0.9)
        for step in range(4):
            serial.step(gradients(0, step), 0.05)
        again.push_pull(3, 0.05, gradients(0, 3), fetched)
        self.assert_same(fetched, serial.params)
        self.assertEqual(again.restore(), 3)
        again.pull(fetched, 3)
        self.assert_same(fetched, params)

    def test_a_push_that_comes_twice_counts_once(self):
        servers = self.servers(1)
        client = self.client(servers)
        client.configure(SHAPES, mode="a_sync")
        params = first_values()
        client.init_or_fetch(params)
        grad = {"scale": numpy.ones(1, F32)}
        client.push(0, 1.0, grad)
        client._servers[0].sequence -= 1  # pylint: disable=protected-access
        client.push(0, 1.0, grad)
        client.pull(params)
        numpy.testing.assert_array_equal(params["scale"], first_values()["scale"] - F32(1))


class Tables(Test):
    TABLES = {"emb": Table(height=10**12, dim=4, init="uniform", a=-0.5, b=0.5, seed=3)}

    def test_rows_are_made_by_their_first_gradient(self):
        rows = {}
        for count in (1, 3):
            servers = self.servers(count)
            client = self.client(servers)
            client.configure({}, tables=self.TABLES)
            client.init_or_fetch({})
            ids = [0, 5, 77, 10**12 - 1]
            first = client.pull_rows("emb", ids)
            self.assertTrue((abs(first) <= 0.5).all() and len(set(first[:, 0])) == 4)
            self.assertEqual(sum(s.rows for s in client.status()), 0)
            grad = numpy.arange(8, dtype=F32).reshape(2, 4)
            client.push(0, 0.25, {}, {"emb": ([5, 77], grad)})
            after = client.pull_rows("emb", ids, 1)
            numpy.testing.assert_array_equal(after[[0, 3]], first[[0, 3]])
            numpy.testing.assert_array_equal(after[1:3], first[1:3] - F32(0.25) * grad)
            stored, values = client.pull_table("emb")
            numpy.testing.assert_array_equal(stored, [5, 77])
            numpy.testing.assert_array_equal(values, after[1:3])
            rows[count] = after
        numpy.testing.assert_array_equal(rows[1], rows[3])

    def test_rules(self):
        rules = {"emb": self.TABLES["emb"]._replace(rules="admit_count=2")}
        client = self.client(self.servers(1))
        client.configure({}, tables=rules)
        client.init_or_fetch({})
        for step, stored in enumerate([[], [5]]):
            client.push(step, 1.0, {}, {"emb": ([5], numpy.ones((1, 4), F32))})
            numpy.testing.assert_array_equal(client.pull_table("emb")[0], stored)
        wrong = {"emb": self.TABLES["emb"]._replace(rules="admit_cuont=2")}
        client = self.client(self.servers(1))
        self.fails("INVALID_ARGUMENT", "admit_count", client.configure, {}, tables=wrong)

    def test_shows_and_clicks_extend_rows(self):
        ctr = {"emb": self.TABLES["emb"]._replace(
            rules="accessor=ctr nonclk_coeff=0.5 click_coeff=2 embedx_threshold=4")}
        client = self.client(self.servers(2))
        client.configure({}, tables=ctr)
        client.init_or_fetch({})
        ids, grad = [5, 77], numpy.ones((2, 4), F32)
        counts = numpy.array([[3, 1], [2, 0]], F32)  # scores 3 and 1
        first = client.pull_rows("emb", ids)
        numpy.testing.assert_array_equal(first[:, 1:], 0)
        self.assertTrue((first[:, 0] != 0).all())
        client.push(0, 0.25, {}, {"emb": (ids, grad, counts)})
        rows = client.pull_rows("emb", ids, 1)
        numpy.testing.assert_array_equal(rows[:, 1:], 0)
        numpy.testing.assert_array_equal(rows[:, 0], first[:, 0] - F32(0.25))
        client.push(1, 0.25, {}, {"emb": (ids, grad, counts)})  # 6 and 2
        begun = client.pull_rows("emb", ids, 2)
        self.assertTrue((begun[0, 1:] != 0).all() and (begun[1, 1:] == 0).all())
        client.push(2, 0.25, {}, {"emb": (ids, grad, counts)})
        after = client.pull_rows("emb", ids, 3)
        numpy.testing.assert_array_equal(after[0], begun[0] - F32(0.25))
        numpy.testing.assert_array_equal(client.pull_table("emb")[1], after)
        self.assertEqual([sum(s.rows for s in client.status()),
                          sum(s.extended for s in client.status())], [2, 1])
        self.fails("INVALID_ARGUMENT", "shows, clicks", client.push, 3, 1.0, {},
                   {"emb": (ids, grad)})
        self.fails("INVALID_ARGUMENT", "row 77 has 1 shows and 2 clicks", client.push, 3,
                   1.0, {}, {"emb": ([77], grad[:1], numpy.array([[1, 2]], F32))})

    def test_buckets(self):
        ids = [0, 1, 5, 10**12 - 1, 2**63 - 1]
        buckets = [(i * 0x9e3779b97f4a7c15) % 2**64 >> 54 for i in ids]
        numpy.testing.assert_array_equal(row_buckets(ids), buckets)

    def test_bad_rows(self):
        client = self.client(self.servers(1))
        client.configure({}, tables=self.TABLES)
        client.init_or_fetch({})
        with self.assertRaisesRegex(ValueError, "ascending"):
            client.push(0, 1.0, {}, {"emb": ([5, 5], numpy.ones((2, 4), F32))})
        with self.assertRaisesRegex(ValueError, "but the table has only 1000000000000 rows"):
            client.pull_rows("emb", [10**12])
        with self.assertRaisesRegex(TypeError, "float64, expected whole numbers"):
            client.push(0, 1.0, {}, {"emb": ([1.7], numpy.ones((1, 4), F32))})
        with self.assertRaisesRegex(TypeError, r"expected \(ids, values\)"):
            client.push(0, 1.0, {}, {"emb": numpy.ones((1, 4), F32)})
        self.fails("INVALID_ARGUMENT", "emb", client.push, 0, 1.0, {},
                   {"emb": ([5], numpy.full((1, 4), numpy.nan, F32))})

    def test_the_next_step_does_not_depend_on_servers_without_pulled_elements(self):
        """Such a server replies to a push before the step is complete."""
        servers = self.servers(2, trainers=2)
        clients = [self.client(servers, trainer=i, trainers=2) for i in range(2)]
        params = [{"v": numpy.zeros(3, F32)} for _ in clients]
        for client, values in zip(clients, params):
            client.configure({"v": (3,)}, tables={"emb": Table(height=100, dim=1)})
            client.init_or_fetch(values)
        rows = {"emb": (numpy.arange(100), numpy.ones((100, 1), F32))}
        steps = [0, 0]

        def train(i):
            for _ in range(200):
                steps[i] = clients[i].push_pull(steps[i], 1.0, {"v": numpy.ones(3, F32)},
                                                params[i], rows)

        other = threading.Thread(target=train, args=(1,))
        other.start()
        train(0)
        other.join()
        self.assertEqual(steps, [200, 200])
        self.assert_same(params[0], {"v": numpy.full(3, -400, F32)})
        numpy.testing.assert_array_equal(clients[0].pull_rows("emb", [5, 98], 200),
                                         numpy.full((2, 1), -400, F32))


class Refusals(Test):
    def configured(self, *flags, shapes=None, **options):
        client = self.client(self.servers(1, *flags))
        client.configure(shapes or SHAPES, **options)
        client.init_or_fetch(first_values() if shapes is None else {
            name: numpy.zeros(shape, F32) for name, shape in shapes.items()})
        return client

    def test_what_the_client_sees_itself(self):
        client = self.configured()
        with self.assertRaisesRegex(KeyError, "fc.b"):
            client.push(0, 1.0, {"fc.bb": numpy.ones(40, F32)})
        with self.assertRaisesRegex(ValueError, r"shape \(41,\)"):
            client.push(0, 1.0, {"fc.b": numpy.ones(41, F32)})
        with self.assertRaisesRegex(TypeError, "float64"):
            client.push(0, 1.0, {"fc.b": numpy.ones(40)})
        with self.assertRaisesRegex(ValueError, "contiguous"):
            client.pull({"fc.w": numpy.ones((40, 300), F32).T})
        with self.assertRaisesRegex(TypeError, "learning_rate is None"):
            client.push(0, None, gradients(0, 0))
        with self.assertRaisesRegex(KeyError, 'first values of "fc.b" are missing'):
            fresh = self.client(self.servers(1))
            fresh.configure(SHAPES)
            fresh.init_or_fetch({"fc.w": first_values()["fc.w"]})

    def test_arguments_of_another_kind(self):
        for servers, words in (("127.0.0.1:7000", "expected a list"), (["ps-0"], "host:port"),
                               (["ps-0:http"], "host:port"), (["ps-0:1", "ps-0:1"], "twice")):
            with self.assertRaisesRegex((TypeError, ValueError), words):
                tandem_pserver.Client(servers, start_timeout=0.1)
        servers = self.servers(1)
        with self.assertRaisesRegex(TypeError, r"variable w .*\(10,\)"):
            self.client(servers).configure({"w": 10})
        with self.assertRaisesRegex(TypeError, r"table emb .*Table\(height, dim\)"):
            self.client(servers).configure({}, tables={"emb": (1000, 4)})

    def test_errors_cross_processes(self):
        """A pool of multiprocessing waits for ever for an error that pickle cannot make again."""
        with self.assertRaises(PserverError) as caught:
            self.configured().push(5, 1.0, gradients(0, 0))
        copy = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(copy), copy.code, copy.server, copy.method, copy.message),
                         (str(caught.exception), "FAILED_PRECONDITION", caught.exception.server,
                          "Push", caught.exception.message))

    def test_gradients_that_are_not_finite(self):
        client = self.configured()
        grad = gradients(0, 0)
        grad["fc.b"][17] = numpy.inf
        self.fails("INVALID_ARGUMENT", "fc.b", client.push, 0, 1.0, grad)
        params = first_values()
        client.push_pull(0, 1.0, gradients(0, 0), params)  # nothing of the first one was applied

    def test_another_step(self):
        client = self.configured()
        self.fails("FAILED_PRECONDITION", "step", client.push, 5, 1.0, gradients(0, 0))

    def test_an_older_trainer(self):
        servers = self.servers(1)
        old = self.client(servers, incarnation=10)
        old.configure(SHAPES)
        old.init_or_fetch(first_values())
        new = self.client(servers, incarnation=11)
        new.configure(SHAPES)
        self.fails("FAILED_PRECONDITION", "incarnation", old.push, 0, 1.0, gradients(0, 0))

    def test_another_configuration(self):
        servers = self.servers(1)
        self.client(servers).configure(SHAPES)
        self.fails("FAILED_PRECONDITION", "momentum", self.client(servers).configure, SHAPES,
                   "momentum")

    def test_an_unknown_optimizer(self):
        self.fails("INVALID_ARGUMENT", "sgdd", self.client(self.servers(1)).configure, SHAPES,
                   "sgdd")

    def test_a_trainer_that_does_not_come(self):
        client = self.client(self.servers(1, trainers=2), trainers=2, step_timeout=1.0)
        client.configure(SHAPES)
        params = first_values()
        client.init_or_fetch(params)
        with self.assertRaises(PserverError) as caught:
            client.push_pull(0, 1.0, gradients(0, 0), params)
        self.assertIn(caught.exception.code, ("DEADLINE_EXCEEDED", "ABORTED"))
        self.assertIn("trainer 1", str(caught.exception))

    def test_a_secret(self):
        servers = self.servers(1, secret="correct horse battery")
        self.client(servers, secret="correct horse battery").configure(SHAPES)
        for wrong, words in (("", "[TD6011]"),
                             ("correct horse batterx",
                              "does not have the secret of job \"job\" [TD6020]")):
            self.fails("UNAUTHENTICATED", words, self.client(servers, secret=wrong).configure,
                       SHAPES)
        secretless = self.servers(1)
        self.fails("FAILED_PRECONDITION", "[TD6020]",
                   self.client(secretless, secret="correct horse battery").configure, SHAPES)

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            servers = self.servers(1, f"--listen=unix:{folder}/pserver-0",
                                   secret="correct horse battery")
            self.assertEqual(servers.addresses, [f"unix:{folder}/pserver-0"])
            client = self.client(servers, secret="correct horse battery")
            client.configure(SHAPES)
            params = first_values()
            client.init_or_fetch(params)
            self.assertEqual(client.push_pull(0, 1.0, gradients(0, 0), params), 1)

    def test_a_socket_in_a_folder_that_others_write(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            self.fails("PERMISSION_DENIED", "allows other users to write (mode 777) [TD2113]",
                       tandem_pserver.Client, [f"unix:{folder}/pserver-0"])
            os.chmod(folder, 0o700)
            self.fails("UNAVAILABLE", "[TD4001]", tandem_pserver.Client,
                       [f"unix:{folder}/pserver-0"], start_timeout=0.5)

    def test_nothing_crosses_a_network_in_the_clear(self):
        address = "192.0.2.1:7000"  # unassigned: RFC 5737
        self.fails("PERMISSION_DENIED", "[TD6023]", tandem_pserver.Client, [address])
        self.fails("UNAVAILABLE", "[TD4001]", tandem_pserver.Client, [address], start_timeout=0.5,
                   insecure_allow_network=True)

    def test_a_server_that_is_not_there(self):
        with self.assertRaisesRegex(PserverError, "hint: check that it runs"):
            tandem_pserver.Client(["127.0.0.1:1"], start_timeout=0.5)

    def test_tls(self):
        folder = self.servers(0).folder.name

        def certs(*command):
            subprocess.run([os.path.join(script.BIN, "tandem"), "certs", *command],
                           cwd=folder, check=True, capture_output=True)

        def files(authority, role):
            return os.path.join(folder, authority, "job", role)

        for authority in ("ours", "theirs"):
            certs("init", authority)
            for role in ("pserver", "trainer", "observer"):
                certs("issue", authority, "--job=job", f"--role={role}")
        servers = self.servers(1, f"--tls_dir={files('ours', 'pserver')}")
        client = self.client(servers, tls=files("ours", "trainer"))
        client.configure(SHAPES)
        client.init_or_fetch(first_values())
        watching = self.client(servers, tls=files("ours", "observer"))
        self.assertTrue(watching.status()[0].initialised)
        self.fails("PERMISSION_DENIED", "has role observer of job \"job\", but the call needs "
                   "role trainer", watching.configure, SHAPES)
        mixed = (files("theirs", "trainer") + "/tls.crt", files("theirs", "trainer") + "/tls.key",
                 files("ours", "trainer") + "/ca.crt")
        for tls, said in ((None, "uses TLS, but this client does not"),
                          (files("theirs", "trainer"), "rejects the server's certificate"),
                          (mixed, "rejects certificate")):
            with self.assertRaisesRegex(PserverError, said):
                self.client(servers, tls=tls)
        with self.assertRaisesRegex(PserverError, "the server does not use TLS"):
            self.client(self.servers(1), tls=files("ours", "trainer"))


if __name__ == "__main__":
    script.main()
