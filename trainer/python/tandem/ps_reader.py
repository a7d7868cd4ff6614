"""The reader of `tandem.ps`: rows and dense variables of a job, for programs that do not train."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy
import numpy.typing

from . import _core
from .errors import InvalidArgumentError

__all__ = ["Dense", "Reader", "Rows"]

Tls = Union[None, str, "os.PathLike[str]", Tuple[str, str, str]]
Array = numpy.typing.NDArray[Any]
MinVersion = Union[int, Sequence[int]]

_TIMEOUT_MAX = 1e6  # seconds


class Rows(NamedTuple):
    """Rows of a table.

    Attributes:
        values: float32 [ids, dim], in the order of the ids; for ids of shape S: S + [dim].
        versions: the version of each server from which values were read, in updates, in the order
            of Reader's `servers`, then of servers that joined the job; 0: no values were read from
            it. The values of one server are of one version.
    """

    values: Array
    versions: Tuple[int, ...]


class Dense(NamedTuple):
    """Dense variables.

    Attributes:
        variables: by name, a float32 array [elements]. Servers do not know shapes: reshape it.
        versions: as in Rows.
    """

    variables: Dict[str, Array]
    versions: Tuple[int, ...]


def check_connection(servers: Sequence[str], timeout: float) -> None:
    """Raises InvalidArgumentError if these arguments of a reader are wrong."""
    if isinstance(servers, str):
        raise InvalidArgumentError(
            f'servers is "{servers}", expected a list of addresses [TD1206]', f'["{servers}"]'
        )
    if not 0 < timeout <= _TIMEOUT_MAX:
        raise InvalidArgumentError(
            f"timeout is {timeout} s, expected more than 0 and at most {_TIMEOUT_MAX:.0f} s "
            "[TD1004]"
        )


def tls_files(tls: Tls) -> Optional[Tuple[str, str, str]]:
    """Returns the names of the files of an argument `tls`; None: there is no TLS."""
    if not isinstance(tls, (str, os.PathLike)):
        return tls
    name = os.fspath(tls)
    files = [os.path.join(name, file) for file in ("tls.crt", "tls.key", "ca.crt")]
    return (files[0], files[1], files[2])


def _min_versions(min_version: MinVersion) -> List[int]:
    given = [min_version] if isinstance(min_version, int) else [int(v) for v in min_version]
    if any(not 0 <= v < 2**64 for v in given):
        raise InvalidArgumentError(
            f"min_version is {min_version}, expected numbers from 0 to 2**64 - 1 [TD1004]"
        )
    return given


class Reader:
    """Reads rows of tables and dense variables of a job, without being one of its trainers.

    Rows and variables that have moved to a server that joined the job are read from there.

    Calls block without the GIL, for `timeout` seconds at most. Ctrl-C ends
    all reads in progress: other threads get CancelledError. Thread-safe.

        with tandem.ps.Reader(["127.0.0.1:7000"], job="mine") as reader:
            values, versions = reader.read_rows("emb", numpy.array([3, 4]))

    Args:
        servers: "host:port" or "unix:/path" of all pservers of the job, in any order, or of one
            replica of each.
        job: the name of the job.
        secret: the secret of the job, if the servers have one.
        tls: a directory with tls.crt, tls.key and ca.crt (`tandem certs issue`, role trainer or
            admin), or (certificate, key, ca), names of PEM files.
        timeout: seconds that the connection, and each read, may take.
        insecure_allow_network: without tls, allows servers at network addresses, where an attacker
            on the path can read and change all data.

    Raises:
        InvalidArgumentError: an argument is wrong.
        UnavailableError, DeadlineExceededError: a server does not reply.
        FailedPreconditionError: a server is of another job.
        UnauthenticatedError, PermissionDeniedError: the secret or the certificate is wrong.
    """

    def __init__(
        self,
        servers: Sequence[str],
        *,
        job: str = "job",
        secret: str = "",
        tls: Tls = None,
        timeout: float = 10.0,
        insecure_allow_network: bool = False,
    ) -> None:
        check_connection(servers, timeout)
        self._core = _core.PsReader(
            servers=list(servers),
            job=job,
            secret=secret,
            tls=tls_files(tls),
            insecure_allow_network=insecure_allow_network,
            timeout=timeout,
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnects as soon as the reads of other threads have ended. Later reads raise
        FailedPreconditionError."""
        self._core.close()

    def read_rows(
        self,
        table: str,
        ids: numpy.typing.ArrayLike,
        min_version: MinVersion = 0,
    ) -> Rows:
        """Returns the values of rows of a table.

        An absent row has its initial values (or zeros, if the rules of the table delay the
        creation of rows); the read does not create it.

        Args:
            table: the name of the table.
            ids: numbers of rows, whole numbers of any shape, 1 to 4 Mi; repeated ids are allowed.
            min_version: the read waits until each server has at least this version, in updates. A
                sequence has a version of each server, such as `versions` of an earlier read: then
                no value of these servers is older than in that read. 0: the newest values, without a wait.
                A reader of one server does not apply the number to servers that join later.

        Raises:
            NotFoundError: the job has no such table.
            InvalidArgumentError: an id is no row of the table, or there are too many or no ids.
            OutOfRangeError: rows move between servers, longer than the time limit; or `servers`
                lacks a server of the job.
            UnavailableError: a server does not reply.
            DeadlineExceededError: a server does not reply, or has no such version yet.
        """
        array = numpy.asarray(ids)
        if array.size and array.dtype.kind not in "iu":  # [] is an array of float64
            raise InvalidArgumentError(
                f"ids of table {table} are {array.dtype}, expected whole numbers [TD1206]"
            )
        rows = numpy.ascontiguousarray(array, numpy.int64)
        values, versions = self._core.read_rows(table, rows, _min_versions(min_version))
        return Rows(values.reshape(array.shape + values.shape[1:]), tuple(versions))

    def read_dense(self, min_version: MinVersion = 0) -> Dense:
        """Returns all dense variables.

        Args:
            min_version: as for read_rows.

        Raises:
            UnavailableError: a server does not reply, or a part of a variable moves between
                servers.
            OutOfRangeError: the job has tables, and `servers` lacks a server of the job.
            DeadlineExceededError: a server does not reply, or has no such version yet.
        """
        variables, versions = self._core.read_dense(_min_versions(min_version))
        return Dense(variables, tuple(versions))
