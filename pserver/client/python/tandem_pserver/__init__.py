"""Python client of Tandem's parameter servers.

    import numpy, tandem_pserver
    client = tandem_pserver.Client(["127.0.0.1:7000", "127.0.0.1:7001"], job="mine")
    params = {"w": numpy.zeros((784, 10), numpy.float32)}
    client.configure({"w": (784, 10)}, optimizer="momentum", attrs={"mu": 0.9})
    step = client.init_or_fetch(params)
    while step < 100:
        step = client.push_pull(step, 0.01, {"w": gradient(params)}, params)
    client.complete()

With several trainers, each has its number (`trainer=0, trainers=2`). Each trainer divides its
gradients by `trainers`, because the servers add them.

The package needs Debian's python3-grpcio, python3-protobuf and python3-numpy. proto/pserver.proto
defines the interface of the server. Trainers in C++ and in Python may share a job.
"""

from .client import Client, ServerStatus, State
from .errors import PserverError
from .partition import Block, Slice, partition, row_buckets
from .table import Table

__all__ = ["Block", "Client", "PserverError", "ServerStatus", "Slice", "State", "Table",
           "partition", "row_buckets"]
