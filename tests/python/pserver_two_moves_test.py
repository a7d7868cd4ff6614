"""Two moves before one step of a sync job, each between two of four servers; of two trainers each has
heard of one of them alone. Its push is taken by the servers of the move that it knows, where the answer
waits for the other trainer, and refused by those of the other move: it must mend the latter meanwhile.
The servers here are played: just what the trainers see of such a step."""

import concurrent.futures
import threading
import unittest

import script
from pserver_case import F32

import grpc
import numpy
from pserver_played import PlayedServer, trainer_of
from tandem_pserver.calls import add_rows
from tandem_pserver.messages import METHODS, NUMBER
from tandem_pserver.partition import first_bucket

SERVERS, TRAINERS = 4, 2
SECONDS = 60.0
IDS = numpy.arange(4096)


class Played(PlayedServer):
    """A server behind a move of its first bucket from server i to i + 2, for i = 0 and 1."""

    def __init__(self, index):
        self.rows = {}  # by trainer
        self._changed = threading.Condition()
        super().__init__(index)

    def ExchangeMap(self, *_):  # pylint: disable=invalid-name
        reply = METHODS["ExchangeMap"][1](index=self.index, generation=1, sync=True)
        source = self.index % 2
        reply.map.move.add(bucket=first_bucket(source, SERVERS), epoch=1, server=source + 2)
        return reply

    def Push(self, request, context):  # pylint: disable=invalid-name
        if request.generation != 1:
            context.abort(grpc.StatusCode.OUT_OF_RANGE, "rows moved")
        ids = [numpy.frombuffer(s.tensor.content, "<i8") for s in request.slice
               if s.tensor.dtype == NUMBER["I64"]]
        with self._changed:
            if request.trainer_id in self.rows:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "rows twice in a step")
            self.rows[request.trainer_id] = numpy.concatenate(ids)
            self._changed.notify_all()
            there = self._changed.wait_for(lambda: len(self.rows) == TRAINERS,
                                           context.time_remaining())
        if not there:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "a trainer is missing")
        return METHODS["Push"][1](version=1)


class TwoMoves(unittest.TestCase):
    def test_trainers_that_know_one_each_end_the_step(self):
        servers = [Played(i) for i in range(SERVERS)]
        for server in servers:
            self.addCleanup(server.stop)

        def train(trainer):
            calls = trainer_of(servers, trainer)
            for i in (trainer, trainer + 2):
                calls.learn(i, servers[i].ExchangeMap())
            owners = calls.placement.owners(IDS)
            requests = []
            for i in range(SERVERS):
                requests.append((i, calls.request("Push", step=0, learning_rate=1.0)))
                ids = IDS[owners == i]
                add_rows(requests[-1][1].slice, "emb", ids, numpy.ones((ids.size, 1), F32))
            try:
                return calls.push_all(requests, SECONDS)
            finally:
                calls.close()

        with concurrent.futures.ThreadPoolExecutor(TRAINERS) as trainers:
            for replies in list(trainers.map(train, range(TRAINERS))):
                self.assertEqual([r.version for r in replies], [1] * SERVERS)
        for trainer in range(TRAINERS):
            taken = numpy.concatenate([s.rows[trainer] for s in servers])
            numpy.testing.assert_array_equal(numpy.sort(taken), IDS)


if __name__ == "__main__":
    script.main()
