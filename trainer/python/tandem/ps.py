"""Client of Tandem's parameter servers, for programs with their own training loop.

    import numpy, tandem.ps
    client = tandem.ps.Client(["127.0.0.1:7000"], job="mine")
    params = {"w": numpy.zeros((784, 10), numpy.float32)}
    client.configure({"w": (784, 10)}, optimizer="momentum", attrs={"mu": 0.9})
    step = client.init_or_fetch(params)
    step = client.push_pull(step, 0.01, {"w": gradient}, params)
    client.complete()

`Reader` reads rows and variables of a running job, from its servers or from replicas of them.
`follow` yields the changes of a table, or of dense variables, while they are trained. The other
names are those of the package `tandem_pserver`, which runs without the C++ module of `tandem`.
`import tandem` does not import this module. The module needs Debian's python3-grpcio and
python3-protobuf.
"""

from __future__ import annotations

from tandem_pserver import (
    Block,
    Client,
    PserverError,
    ServerStatus,
    Slice,
    State,
    Table,
    partition,
    row_buckets,
)

from .ps_follower import Change, Follower, VariableChange, VariableFollower, follow
from .ps_reader import Dense, Reader, Rows

__all__ = [
    "Block",
    "Change",
    "Client",
    "Dense",
    "Follower",
    "PserverError",
    "Reader",
    "Rows",
    "ServerStatus",
    "Slice",
    "State",
    "Table",
    "VariableChange",
    "VariableFollower",
    "follow",
    "partition",
    "row_buckets",
]
