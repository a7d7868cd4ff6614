"""Servers that a test plays: just what trainers see of them."""

import concurrent.futures

import grpc
from tandem_pserver.calls import Calls
from tandem_pserver.messages import METHODS


class PlayedServer:
    """Answers the calls that are methods of the object: Push(request, context), ..."""

    def __init__(self, index):
        self.index = index
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                getattr(self, name), request.FromString, reply.SerializeToString)
            for name, (request, reply) in METHODS.items() if hasattr(self, name)}
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("tandem.ParameterServer", handlers),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self):
        self._server.stop(None).wait()


def trainer_of(servers, trainer=0):
    """The calls of a trainer of a job that has tables, and no slices."""
    calls = Calls([s.address for s in servers],
                  {"job": "job", "trainer_id": trainer, "incarnation": 1}, "", None, 3)
    calls.placement.place([], True)
    return calls
