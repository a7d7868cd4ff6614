"""The programs of Tandem that a wheel brings: tandem, tandemrun, tandem-pserver, tandem-trainer."""

from __future__ import annotations

import os
import sys
from typing import NoReturn, Optional

from .errors import FileMissingError

__all__ = ["path", "run"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def path(name: str) -> str:
    """Returns the file of a program of this package, or of the build beside the package.

    Raises:
        FileMissingError: there is none; the programs are in the Debian package `tandem`.
    """
    beside = ("bin", "../../bin", "../../../../bin")  # of a wheel, a build, a Debian package
    for folder in (os.path.join(_HERE, place) for place in beside):
        file = os.path.normpath(os.path.join(folder, name))
        if os.access(file, os.X_OK):
            return file
    raise FileMissingError(
        f"the package tandem in {_HERE} has no program {name} [TD7001]",
        "install the wheel or the Debian package tandem",
    )


def run(name: Optional[str] = None) -> NoReturn:
    """Replaces this process by a program, with the arguments of this process.

    Args:
        name: None: the name by which this process was started.
    """
    program = os.path.basename(sys.argv[0]) if name is None else name
    os.execv(path(program), [program, *sys.argv[1:]])
