"""The followers of `tandem.ps`: the changes of a table or of the dense variables of a running job,
as they happen."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
import numpy.typing

from . import _core
from .errors import InvalidArgumentError
from .ps_reader import Tls, check_connection, tls_files

__all__ = ["Change", "Follower", "VariableChange", "VariableFollower", "follow"]

Array = numpy.typing.NDArray[Any]

_FACTOR = numpy.uint64(0x9E3779B97F4A7C15)
_WAIT = 3600.0  # seconds of one call of the C++ module


class Change(NamedTuple):
    """Changes of a table on one server. A program that applies all changes in order has
    its rows.

    Attributes:
        server: the index of the server in `servers`.
        version: the version of the server, in updates, that the values have.
        replaced: int64 [buckets], row buckets (`tandem.ps.row_buckets`) of which `ids` has all
            rows. Earlier rows of these buckets that are not in `ids` do not exist any more.
        first: whether the follower began without a token and has not sent the replaced buckets
            before, so that there are no earlier rows of them.
        ids: int64 [rows], rows that are new or changed, each once.
        values: float32 [rows, dim], their weights.
        removed: int64 [rows], rows that do not exist any more.
        current: whether one who has applied this change has all rows, as of the newest reply of
            every server.
        token: the position after this change, for `follow`.
    """

    server: int
    version: int
    replaced: Array
    first: bool
    ids: Array
    values: Array
    removed: Array
    current: bool
    token: bytes

    def apply(self, rows: Dict[int, Array]) -> None:
        """Applies the change to `rows`, which has the weights (float32 [dim]) of each row."""
        if len(self.replaced) and not self.first:
            known = numpy.fromiter(rows, numpy.int64, len(rows))
            buckets = (known.astype(numpy.uint64) * _FACTOR) >> numpy.uint64(54)
            for row in known[numpy.isin(buckets, self.replaced)].tolist():
                del rows[row]
        for row in self.removed.tolist():
            rows.pop(row, None)
        # A view of `values` would keep the whole array alive.
        rows.update(zip(self.ids.tolist(), map(numpy.copy, self.values)))


def _check_interval(interval: float) -> None:
    if not 0 < interval <= 3600:
        raise InvalidArgumentError(
            f"interval is {interval} s, expected more than 0 and at most 3600 s [TD1004]"
        )


class Follower:
    """Follows a table of a job, without being one of its trainers: first all its rows, then every
    change.

    A follower that is slow gets the newest values of rows that changed several times, and never
    holds up training. If it was away for too long, it gets all rows again. Only one thread at a
    time may wait for a change.

        rows = {}
        with tandem.ps.Follower(["127.0.0.1:7000"], "emb", job="mine") as follower:
            for change in follower:
                change.apply(rows)

    Args:
        servers: "host:port" or "unix:/path" of all pservers of the job, in any order, or of one
            replica of each. They need `--durability=logged`.
        table: the name of the table.
        job, secret, tls, insecure_allow_network: as for Reader.
        token: the position at which the follower continues, from Change.token; b"": from all rows.
        timeout: seconds for which a server may be silent, while it is replaced for example.
        interval: seconds from a request to the next one to a server that had no more changes. The
            changes of this time come together.
        buckets: (begin, end), the row buckets (`tandem.ps.row_buckets`) that are followed.
        min_score: rows whose score (show and click counts of the table's rules) is lower count as
            rows that do not exist. The score is compared when a row changes. None: all rows.
        values: how the values travel: "f32", "bf16" (errors of at most 2**-8 of a value) or "int8"
            (errors of at most 1/254 of the largest absolute value of the row). Change.values are
            float32 in each case.

    Raises:
        InvalidArgumentError: an argument is wrong, or the token is one of another table or job.
        UnavailableError, DeadlineExceededError: a server does not reply.
        UnauthenticatedError, PermissionDeniedError: the secret or the certificate is wrong.
    """

    def __init__(
        self,
        servers: Sequence[str],
        table: str,
        *,
        job: str = "job",
        secret: str = "",
        tls: Tls = None,
        token: bytes = b"",
        timeout: float = 60.0,
        interval: float = 0.02,
        insecure_allow_network: bool = False,
        buckets: Tuple[int, int] = (0, 1024),
        min_score: Optional[float] = None,
        values: str = "f32",
    ) -> None:
        check_connection(servers, timeout)
        _check_interval(interval)
        self._core = _core.PsFollower(
            servers=list(servers),
            table=table,
            job=job,
            secret=secret,
            tls=tls_files(tls),
            insecure_allow_network=insecure_allow_network,
            timeout=timeout,
            token=token,
            interval=interval,
            buckets=buckets,
            min_score=min_score,
            values=values,
        )

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Change]:
        while True:
            change = self.next(_WAIT)
            if change is not None:
                yield change

    def close(self) -> None:
        """Disconnects. A wait of another thread ends with CancelledError. Later calls raise
        FailedPreconditionError."""
        self._core.close()

    def next(self, timeout: float) -> Optional[Change]:
        """Returns the next change, or None if there was none for `timeout` seconds. After an error,
        it may be called again. Ctrl-C ends the wait.

        Raises:
            NotFoundError: the job has no such table.
            FailedPreconditionError: the servers have no `--durability=logged`.
            UnimplementedError: the optimizer of the table also changes rows without a gradient.
            UnavailableError, DeadlineExceededError: a server has not replied for the time limit.
            OutOfRangeError: no server has served some rows for the time limit.
            CancelledError: another thread called close.
        """
        found = self._core.next(timeout)
        return None if found is None else Change(*found)


class VariableChange(NamedTuple):
    """New values of dense variables.

    Attributes:
        versions: the version of each server's values, in updates, in the order of `servers`; 0: the
            server has no part of the variables, or has no update yet. All values of one server are
            of one version.
        values: float32 [elements] of each variable that has new values, by name. Variables are flat
            arrays, because servers do not know shapes.
    """

    versions: List[int]
    values: Dict[str, Array]

    def apply(self, variables: Dict[str, Array]) -> None:
        """Applies the change to `variables`, which has the values of each variable."""
        variables.update(self.values)


class VariableFollower:
    """Follows dense variables of a job, without being one of its trainers: first the values of all
    variables, then new values when a server has a new version.

    A follower that is slow gets the newest values, and never holds up training. It needs no token,
    because each change has all values of a server. Only one thread at a time may wait for a change.

        variables = {}
        with tandem.ps.VariableFollower(["127.0.0.1:7000"], ["fc.w"], job="mine") as follower:
            for change in follower:
                change.apply(variables)

    Args:
        servers: as for Follower. They need no `--durability=logged`.
        variables: names of dense variables; empty: all.
        every: updates of a server from one of its changes to the next, at least. 1: each update.
        job, secret, tls, insecure_allow_network: as for Reader.
        timeout: seconds for which a server may be silent, while it is replaced for example.
        interval: minimum pause in seconds between two requests to a server.

    Raises:
        InvalidArgumentError: an argument is wrong.
        UnavailableError, DeadlineExceededError: a server does not reply.
        UnauthenticatedError, PermissionDeniedError: the secret or the certificate is wrong.
    """

    def __init__(
        self,
        servers: Sequence[str],
        variables: Sequence[str] = (),
        *,
        every: int = 1,
        job: str = "job",
        secret: str = "",
        tls: Tls = None,
        timeout: float = 60.0,
        interval: float = 0.02,
        insecure_allow_network: bool = False,
    ) -> None:
        check_connection(servers, timeout)
        _check_interval(interval)
        if every < 1:
            raise InvalidArgumentError(f"every is {every}, expected 1 or more updates [TD1004]")
        self._core = _core.PsVariableFollower(
            servers=list(servers),
            variables=list(variables),
            job=job,
            secret=secret,
            tls=tls_files(tls),
            insecure_allow_network=insecure_allow_network,
            timeout=timeout,
            every=every,
            interval=interval,
        )

    def __enter__(self) -> VariableFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[VariableChange]:
        while True:
            change = self.next(_WAIT)
            if change is not None:
                yield change

    def close(self) -> None:
        """Disconnects. A wait of another thread ends with CancelledError. Later calls raise
        FailedPreconditionError."""
        self._core.close()

    def next(self, timeout: float) -> Optional[VariableChange]:
        """Returns the next change, or None if there was none for `timeout` seconds. After an error,
        it may be called again. Ctrl-C ends the wait.

        Raises:
            NotFoundError: no server has had a part of a named variable for the time limit.
            UnavailableError, DeadlineExceededError: a server has not replied for the time limit.
            CancelledError: another thread called close.
        """
        found = self._core.next(timeout)
        return None if found is None else VariableChange(*found)


def follow(
    servers: Sequence[str],
    table: str = "",
    *,
    variables: Optional[Sequence[str]] = None,
    **options: Any,
) -> Iterator[Union[Change, VariableChange]]:
    """Yields the changes of a table of a running job: first all its rows, then every change. With
    `variables`, yields the changes of dense variables instead.

        for change in tandem.ps.follow(["127.0.0.1:7000"], "emb", job="mine"):
            change.apply(rows)
        for change in tandem.ps.follow(["127.0.0.1:7000"], variables=[], job="mine"):
            change.apply(dense)

    Args:
        servers, table, options: as for Follower, or with `variables` as for VariableFollower.
        variables: names of dense variables, empty: all; None: follow the table.

    Raises:
        All errors of Follower or VariableFollower, and of their `next`.
    """
    if (variables is None) == (not table):
        raise InvalidArgumentError("follow needs a table or variables, and not both [TD1004]")
    if variables is None:
        with Follower(servers, table, **options) as follower:
            yield from follower
    else:
        with VariableFollower(servers, variables, **options) as variable_follower:
            yield from variable_follower
