"""A server ends a connection that sends much before it accepted a call of it. A client whose large call
broke off makes a small call first. The server here is played: just what a client sees of it."""

import unittest

import script
import pserver_case  # pylint: disable=unused-import

import grpc
from pserver_played import PlayedServer
from tandem_pserver.channel import Server
from tandem_pserver.messages import METHODS


class Breaks(PlayedServer):
    """Its connections break at the first call."""

    def __init__(self):
        self.heard = []
        super().__init__(0)

    def _answer(self, method, context):
        self.heard.append(method)
        if len(self.heard) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        return METHODS[method][1]()

    def SaveCheckpoint(self, _, context):  # pylint: disable=invalid-name
        return self._answer("SaveCheckpoint", context)

    def GetStatus(self, _, context):  # pylint: disable=invalid-name
        return self._answer("GetStatus", context)


class FirstCall(unittest.TestCase):
    def heard(self, size):
        server = Breaks()
        self.addCleanup(server.stop)
        client = Server(0, server.address, "job", "", None, 3)
        self.addCleanup(client.close)
        client.call("SaveCheckpoint", METHODS["SaveCheckpoint"][0](job="x" * size), 30.0)
        return server.heard

    def test_a_large_call_follows_a_small_one(self):
        self.assertEqual(self.heard(100_000), ["SaveCheckpoint", "GetStatus", "SaveCheckpoint"])

    def test_a_small_call_is_sent_again_at_once(self):
        self.assertEqual(self.heard(100), ["SaveCheckpoint", "SaveCheckpoint"])


if __name__ == "__main__":
    script.main()
