"""The first values of parameters.

Random values depend on the seed of the startup program, the name of the parameter and the
position of the element. So every process computes the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Initializer", "Constant", "Uniform", "Normal", "XavierUniform", "MSRANormal"]


@dataclass(frozen=True)
class Initializer:
    """A kind of initial values and its two numbers. Use one of the functions of this module."""

    kind: str
    a: float = 0.0
    b: float = 0.0


def Constant(value: float = 0.0) -> Initializer:
    """All elements are `value`."""
    return Initializer("constant", value)


def Uniform(low: float = -1.0, high: float = 1.0) -> Initializer:
    """Uniform in [low, high)."""
    return Initializer("uniform", low, high)


def Normal(mean: float = 0.0, stddev: float = 1.0) -> Initializer:
    """Normal with this mean and standard deviation."""
    return Initializer("normal", mean, stddev)


def XavierUniform() -> Initializer:
    """Uniform in +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010)."""
    return Initializer("xavier_uniform")


def MSRANormal() -> Initializer:
    """Normal with standard deviation sqrt(2 / fan_in) (He et al., ICCV 2015)."""
    return Initializer("msra_normal")
