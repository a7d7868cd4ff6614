"""Fleet's names: those of tandem.fleet."""

from tandem.fleet import *  # pylint: disable=wildcard-import,unused-wildcard-import
from tandem.fleet import __all__

from . import base
