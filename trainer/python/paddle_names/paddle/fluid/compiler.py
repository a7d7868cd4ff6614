"""Programs with a build strategy."""

from tandem import CompiledProgram

__all__ = ["CompiledProgram"]
