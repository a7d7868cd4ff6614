"""Redis clients read rows and variables of servers and of their replicas (`--resp_listen`)."""

import os
import shutil
import socket
import subprocess
import time
import unittest

import script

import pserver_case
import numpy
import tandem_pserver
from pserver_process import Replicas, Servers

SECRET = "0123456789abcdef0123456789abcdef"
SHAPES = {"fc.w": (30, 4), "fc.b": (4,)}
TABLES = {"emb": tandem_pserver.Table(1000, 4, "uniform", -0.1, 0.1, 1)}
RESP = "--resp_listen=127.0.0.1:0"
SLOW = 120.0  # seconds that nothing here takes


class Redis:
    """A client of RESP over a socket."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=SLOW)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, *arguments):
        parts = [b"*%d\r\n" % len(arguments)]
        for argument in arguments:
            argument = argument if isinstance(argument, bytes) else str(argument).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
        self.socket.sendall(b"".join(parts))

    def receive(self):
        """The next reply: bytes, a list, a number or a line of text. None: the server hung up."""
        line = self.file.readline()
        if not line:
            return None
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.receive() for _ in range(int(rest))]
        return int(rest) if kind == b":" else kind.decode() + rest

    def ask(self, *arguments):
        self.send(*arguments)
        return self.receive()


def floats(reply):
    return numpy.frombuffer(reply, "<f4")


class Test(unittest.TestCase):
    def entered(self, manager):
        value = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return value

    def start(self, count=1, **options):
        self.servers = self.entered(Servers(script.BUILD, count, "--durability=logged", RESP,
                                            **options))
        self.client = self.entered(pserver_case.connect(self.servers, **options))
        self.client.configure(SHAPES, tables=TABLES, mode="a_sync")
        random = numpy.random.default_rng(7)
        self.params = {n: random.standard_normal(s, numpy.float32) for n, s in SHAPES.items()}
        self.client.init_or_fetch(self.params)
        self.steps = 0

    def train(self, steps):
        for _ in range(steps):
            gradients = {n: numpy.ones(s, numpy.float32) for n, s in SHAPES.items()}
            rows = {"emb": (numpy.array([7, 8]), numpy.ones((2, 4), numpy.float32))}
            self.client.push_pull(self.steps, 0.5, gradients, self.params, rows)
            self.steps += 1

    def check_values(self, redis):
        """Waits until a Redis client gets the values of the trainer."""
        want = self.client.pull_rows("emb", [7, 8, 500])
        until = time.monotonic() + SLOW
        while True:
            got = redis.ask("MGET", "emb:7", "emb:8", "emb:500")
            self.assertIsInstance(got, list, got)
            if numpy.array_equal([floats(row) for row in got], want):
                break
            self.assertLess(time.monotonic(), until)
        for name, values in self.params.items():
            numpy.testing.assert_array_equal(floats(redis.ask("GET", name)), values.reshape(-1))
        self.assertEqual(redis.ask("EXISTS", "emb:7", "emb:8", "emb:500", "fc.b"), 3)
        self.assertEqual(redis.ask("HLEN", "emb"), 2)


class Reading(Test):
    def test_servers_and_replicas_give_the_values_of_the_trainer(self):
        self.start()
        self.train(3)
        with Redis(self.servers.redis_addresses[0]) as redis:
            self.check_values(redis)
        replicas = self.entered(Replicas(script.BUILD, self.servers, RESP))
        with Redis(replicas.redis_addresses[0]) as redis:
            for steps in (0, 1, 5):
                self.train(steps)
                self.check_values(redis)
            self.assertTrue(redis.ask("SET", "emb:7", "x").startswith("-ERR unknown command"))
            before = redis.ask("GET", "emb:7")
            self.servers.kill(0)
            self.assertEqual(redis.ask("GET", "emb:7"), before)
            self.servers.start(0)
            self.train(2)
            self.check_values(redis)

    def test_a_row_of_another_server(self):
        self.start(count=2)
        self.train(1)
        found = []
        for address in self.servers.redis_addresses:
            with Redis(address) as redis:
                found += [reply for reply in (redis.ask("GET", f"emb:{i}") for i in (7, 8))
                          if isinstance(reply, bytes)]
                for i in (7, 8):
                    reply = redis.ask("GET", f"emb:{i}")
                    if not isinstance(reply, bytes):
                        self.assertIn("[TD4035]; hint: read the row from the server that has", reply)
        self.assertEqual(sorted(found),
                         sorted(row.tobytes() for row in self.client.pull_rows("emb", [7, 8])))

    def test_secret(self):
        self.start(secret=SECRET)
        self.train(1)
        for servers in (self.servers,
                        self.entered(Replicas(script.BUILD, self.servers, RESP, secret=SECRET))):
            with Redis(servers.redis_addresses[0]) as redis:
                self.assertIn("-NOAUTH", redis.ask("GET", "emb:7"))
                self.assertIn("-WRONGPASS", redis.ask("AUTH", "f" * 32))
                self.assertEqual(redis.ask("AUTH", SECRET), "+OK")
                self.check_values(redis)

    @unittest.skipIf(shutil.which("redis-cli") is None, "no redis-cli (package redis-tools)")
    def test_redis_cli(self):
        self.start(secret=SECRET)
        self.train(1)
        host, port = self.servers.redis_addresses[0].rsplit(":", 1)

        def cli(*arguments):
            done = subprocess.run(["redis-cli", "-h", host, "-p", port, *arguments], check=False,
                                  capture_output=True, env={**os.environ, "REDISCLI_AUTH": SECRET})
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return done.stdout
        self.assertEqual(cli("PING"), b"PONG\n")
        self.assertEqual(cli("GET", "fc.b"), self.params["fc.b"].tobytes() + b"\n")
        self.assertEqual(cli("-3", "HLEN", "emb"), b"2\n")
        self.assertIn(b"role:master", cli("INFO", "replication"))
        pipe = b"*2\r\n$3\r\nGET\r\n$5\r\nemb:7\r\n" * 1000
        done = subprocess.run(["redis-cli", "-h", host, "-p", port, "--pipe"], input=pipe,
                              env={**os.environ, "REDISCLI_AUTH": SECRET}, check=True,
                              stdout=subprocess.PIPE)
        self.assertIn(b"errors: 0, replies: 1000", done.stdout)


class Flags(unittest.TestCase):
    def failure(self, *flags):
        done = subprocess.run([os.path.join(script.BIN, "tandem-pserver"), *flags], text=True,
                              capture_output=True, check=False, timeout=SLOW)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_the_address(self):
        self.assertIn("is a network address, but Redis clients have no TLS [TD6001]",
                      self.failure("--resp_listen=0.0.0.0:0"))


if __name__ == "__main__":
    script.main()
