"""Paddle's names over Tandem, for scripts of PaddlePaddle Fleet (2020)."""

from tandem import CPUPlace, CUDAPlace

from . import distributed, fluid, reader
from .reader import batch

__all__ = ["CPUPlace", "CUDAPlace", "batch", "distributed", "enable_static", "fluid", "reader"]


def enable_static() -> None:
    """Does nothing: Tandem always builds programs."""


def in_dynamic_mode() -> bool:
    """False: Tandem always builds programs."""
    return False
