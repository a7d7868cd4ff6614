"""A trainer that begins goes from server to server. One of them waits for what another trainer pushed to it,
whose successor waits at a server where this trainer was: there nobody but this trainer can say that what
its own predecessor had pushed is gone. The servers here are played: just what the trainer sees of them."""

import unittest

import script
import pserver_case  # pylint: disable=unused-import

import grpc
from pserver_played import PlayedServer, trainer_of
from tandem_pserver.messages import METHODS


class First(PlayedServer):
    def __init__(self):
        self.heard = 0
        super().__init__(0)

    def ExchangeMap(self, *_):  # pylint: disable=invalid-name
        self.heard += 1
        return METHODS["ExchangeMap"][1](index=self.index)


class Second(PlayedServer):
    def __init__(self, first):
        self._first = first
        super().__init__(1)

    def Configure(self, _, context):  # pylint: disable=invalid-name
        if self._first.heard < 2:
            context.abort(grpc.StatusCode.DATA_LOSS, "waits for trainer 1")
        return METHODS["Configure"][1](version=7)


class Begin(unittest.TestCase):
    def test_who_waits_at_a_server_tells_those_before_it(self):
        first = First()
        second = Second(first)
        for server in (first, second):
            self.addCleanup(server.stop)
        calls = trainer_of([first, second])
        self.addCleanup(calls.close)
        reply = calls.call(1, "Configure", calls.request("Configure"), 10.0)
        self.assertEqual(reply.version, 7)
        self.assertEqual(first.heard, 2)


if __name__ == "__main__":
    script.main()
