"""A server that SIGTERM ends cancels calls. The client retries such a call like a call whose connection
broke. The server here is played, so that it cancels as many calls as the test says."""

import time
import unittest

import script
import pserver_case  # pylint: disable=unused-import

import grpc
from pserver_played import PlayedServer, trainer_of
from tandem_pserver.channel import BACKOFF_SECONDS, Server
from tandem_pserver.errors import PserverError
from tandem_pserver.messages import METHODS

RETRIES = 3


class Cancels(PlayedServer):
    """Cancels the first `count` calls of Push and OpenSession."""

    def __init__(self, count):
        self.count, self.times, self.sequences = count, [], []
        super().__init__(0)

    def _answer(self, method, context):
        self.times.append(time.monotonic())
        if len(self.times) <= self.count:
            context.abort(grpc.StatusCode.CANCELLED, "CANCELLED")
        return METHODS[method][1]()

    def Push(self, request, context):  # pylint: disable=invalid-name
        self.sequences.append(request.sequence)
        return self._answer("Push", context)

    def OpenSession(self, _, context):  # pylint: disable=invalid-name
        return self._answer("OpenSession", context)


class Cancelled(unittest.TestCase):
    def served(self, count):
        server = Cancels(count)
        self.addCleanup(server.stop)
        return server

    def push(self, server, secret=""):
        client = Server(0, server.address, "job", secret, None, RETRIES)
        self.addCleanup(client.close)
        client.call("Push", METHODS["Push"][0](job="job", sequence=7), 30.0)

    def test_a_cancelled_push_is_sent_once_more(self):
        server = self.served(1)
        self.push(server)
        self.assertEqual(server.sequences, [7, 7])

    def test_a_server_that_ends_has_time_to_close_its_connection(self):
        server = self.served(RETRIES)
        self.push(server)
        pauses = [b - a for a, b in zip(server.times, server.times[1:])]
        self.assertEqual(len(pauses), RETRIES)
        for attempt, pause in enumerate(pauses):
            self.assertGreaterEqual(pause, 0.49 * BACKOFF_SECONDS * 2**attempt)

    def fails(self, server, secret=""):
        with self.assertRaises(PserverError) as raised:
            self.push(server, secret)
        self.assertEqual(raised.exception.code, "UNAVAILABLE")
        self.assertIn("the server cancelled the call: CANCELLED", str(raised.exception))
        self.assertEqual(len(server.times), 1 + RETRIES)

    def test_the_last_attempt_fails_with_unavailable(self):
        self.fails(self.served(100))

    def test_a_cancelled_session_is_opened_again(self):
        server = self.served(100)
        self.fails(server, "secret")
        self.assertEqual(server.sequences, [])

    def test_a_kept_push_is_sent_until_the_server_takes_it(self):
        server = self.served(2 * (1 + RETRIES) + 1)
        calls = trainer_of([server])
        self.addCleanup(calls.close)
        calls.keep_pushes(1 << 20)
        calls.push_all([(0, METHODS["Push"][0](job="job"))], 60.0)
        self.assertEqual(server.sequences, [1] * (server.count + 1))


if __name__ == "__main__":
    script.main()
