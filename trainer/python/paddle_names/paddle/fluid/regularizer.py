"""Penalties of parameters."""

from tandem.optimizer import L1Decay as _L1
from tandem.optimizer import L2Decay as _L2

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer"]


def L1Decay(regularization_coeff: float = 0.0) -> _L1:
    """Adds regularization_coeff times the sign of the parameter to its gradient."""
    return _L1(regularization_coeff)


def L2Decay(regularization_coeff: float = 0.0) -> _L2:
    """Adds regularization_coeff times the parameter to its gradient."""
    return _L2(regularization_coeff)


L1DecayRegularizer = L1Decay
L2DecayRegularizer = L2Decay
