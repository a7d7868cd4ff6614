"""Paddle's names of distributed training."""

from . import fleet

__all__ = ["fleet"]
