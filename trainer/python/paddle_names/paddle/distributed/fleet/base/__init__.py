"""The parts of Fleet that scripts import."""

from . import role_maker

__all__ = ["role_maker"]
