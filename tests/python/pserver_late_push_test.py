"""A server holds new pushes for a moment and refuses one, then its rows move away. The bytes of that push
may have been on their way twice, so that they are taken in between: only a push of which it was known
when it was sent that its server refuses it for ever may be sent to other servers. The servers here are
played: just what the trainer sees of them."""

import threading
import unittest

import script
from pserver_case import F32

import grpc
import numpy
from pserver_played import PlayedServer, trainer_of
from tandem_pserver.calls import add_rows
from tandem_pserver.messages import METHODS, NUMBER
from tandem_pserver.partition import ROW_BUCKETS, first_bucket

SERVERS = 2
SECONDS = 60.0


class Job:
    """What the servers share. `late`: the second copy of the first push is taken."""

    def __init__(self, sync, late):
        self.sync, self.late = sync, late
        self.mutex = threading.Lock()
        self.moved = False  # whether all rows of server 1 have moved to server 0
        self.counted = []   # ids of gradients that made an update


class Played(PlayedServer):
    def __init__(self, index, job):
        self._job, self._taken = job, set()
        super().__init__(index)

    def ExchangeMap(self, *_):  # pylint: disable=invalid-name
        with self._job.mutex:
            reply = METHODS["ExchangeMap"][1](index=self.index, generation=self._generation(),
                                              sync=self._job.sync)
            if self._job.moved:
                for bucket in range(first_bucket(1, SERVERS), ROW_BUCKETS):
                    reply.map.move.add(bucket=bucket, epoch=1, server=0)
            return reply

    def Push(self, request, context):  # pylint: disable=invalid-name
        with self._job.mutex:
            known = request.sequence in self._taken
            held = self.index == 1 and not self._job.moved
            if not known and not held and request.generation == self._generation():
                self._take(request)
            elif not known:
                if held and self._job.late:
                    self._take(request)
                self._job.moved = True
                context.abort(grpc.StatusCode.OUT_OF_RANGE, "rows move")
            return METHODS["Push"][1](version=1)

    def _generation(self):
        return int(self._job.moved and self.index == 1)

    def _take(self, request):
        self._taken.add(request.sequence)
        for piece in request.slice:
            if piece.tensor.dtype == NUMBER["I64"]:
                self._job.counted += numpy.frombuffer(piece.tensor.content, "<i8").tolist()


class LatePush(unittest.TestCase):
    def test_it_makes_one_update_taken_late_or_not(self):
        for sync in (True, False):
            for late in (True, False):
                with self.subTest(sync=sync, late=late):
                    self.assert_counted_once(Job(sync, late))

    def assert_counted_once(self, job):
        servers = [Played(i, job) for i in range(SERVERS)]
        for server in servers:
            self.addCleanup(server.stop)
        calls = trainer_of(servers)
        self.addCleanup(calls.close)
        calls.stamps = not job.sync
        ids = numpy.arange(64)
        ids = ids[calls.placement.owners(ids) == 1]
        push = calls.request("Push", step=0, learning_rate=1.0)
        add_rows(push.slice, "emb", ids, numpy.ones((ids.size, 1), F32))
        calls.push_all([(1, push)], SECONDS)
        self.assertEqual(job.counted, ids.tolist())


if __name__ == "__main__":
    script.main()
