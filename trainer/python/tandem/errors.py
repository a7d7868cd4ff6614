"""The exceptions of the package. Each failure of the C++ library becomes one of them.

`Error` is the base of all. Each kind of failure has a class, which also derives from Python's own
exception where one fits: `except ValueError` catches `InvalidArgumentError`.
"""

from __future__ import annotations

import re
from typing import Dict, Type

__all__ = [
    "Error",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "FileMissingError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "from_status",
]

_CODE = re.compile(r"\[(TD\d{4})\]")


class Error(Exception):
    """A failure that Tandem reports.

    Attributes:
        code: the error code, for example "TD1207"; "" if the message has none. The command
            `tandem explain CODE` explains it.
        hint: one action that may help; "" if there is none.
        message: the message without the hint.
        status: the kind of the failure, for example "INVALID_ARGUMENT".
    """

    status: str = "UNKNOWN"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint
        found = _CODE.search(message)
        self.code = found.group(1) if found else ""


class AbortedError(Error):
    """Another process ended the operation. A retry may help."""

    status = "ABORTED"


class AlreadyExistsError(Error, ValueError):
    """The name is used already."""

    status = "ALREADY_EXISTS"


class CancelledError(Error):
    """A request ended the operation."""

    status = "CANCELLED"


class DataLossError(Error, OSError):
    """A file is damaged."""

    status = "DATA_LOSS"


class DeadlineExceededError(Error, TimeoutError):
    """The operation did not end in its time."""

    status = "DEADLINE_EXCEEDED"


class FailedPreconditionError(Error, RuntimeError):
    """The object is not in the state that the operation needs."""

    status = "FAILED_PRECONDITION"


class InternalError(Error, RuntimeError):
    """An error in Tandem itself."""

    status = "INTERNAL"


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong."""

    status = "INVALID_ARGUMENT"


class NotFoundError(Error, LookupError):
    """There is no variable, operator or file of this name."""

    status = "NOT_FOUND"


class FileMissingError(NotFoundError, FileNotFoundError):
    """There is no file of this name."""


class OutOfRangeError(Error, IndexError):
    """A position is outside its range."""

    status = "OUT_OF_RANGE"


class PermissionDeniedError(Error, PermissionError):
    """The process may not use the file or the server."""

    status = "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    """Memory or disk space does not suffice."""

    status = "RESOURCE_EXHAUSTED"


class UnauthenticatedError(Error, PermissionError):
    """The server does not accept the secret of the job."""

    status = "UNAUTHENTICATED"


class UnavailableError(Error, ConnectionError):
    """A process, a device or a library is missing."""

    status = "UNAVAILABLE"


class UnimplementedError(Error, NotImplementedError):
    """Tandem does not have this combination."""

    status = "UNIMPLEMENTED"


_BY_STATUS: Dict[str, Type[Error]] = {
    kind.status: kind
    for kind in (
        AbortedError,
        AlreadyExistsError,
        CancelledError,
        DataLossError,
        DeadlineExceededError,
        FailedPreconditionError,
        InternalError,
        InvalidArgumentError,
        NotFoundError,
        OutOfRangeError,
        PermissionDeniedError,
        ResourceExhaustedError,
        UnauthenticatedError,
        UnavailableError,
        UnimplementedError,
    )
}


def from_status(status: str, message: str, hint: str, of_file: bool) -> Error:
    """Returns the exception of a status of the C++ library.

    Args:
        status: the name of the status code, for example "NOT_FOUND".
        message: the message without the hint.
        hint: the hint; "" if there is none.
        of_file: the failure concerns a file.
    """
    kind = _BY_STATUS.get(status, Error)
    if kind is NotFoundError and of_file:
        kind = FileMissingError
    return kind(message, hint)
