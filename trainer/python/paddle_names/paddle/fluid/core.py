"""The exceptions and checks that scripts take from Paddle's C++ library."""

import tandem
from tandem.errors import Error as EnforceNotMet
from tandem.reader import EOFException

__all__ = ["EOFException", "EnforceNotMet", "is_compiled_with_cuda"]


def is_compiled_with_cuda() -> bool:
    """Whether a CUDA device is usable."""
    try:
        tandem.Scope("cuda:0")
    except tandem.Error:
        return False
    return True
