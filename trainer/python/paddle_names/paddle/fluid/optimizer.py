"""Optimizers. `regularization` and `grad_clip` are those of fluid.regularizer and fluid.clip."""

from typing import Any

from tandem.optimizer import (
    SGD,
    Adagrad,
    Adam,
    Adamax,
    DecayedAdagrad,
    Ftrl,
    Momentum,
    RMSProp,
)
from tandem.optimizer import Lamb as LambOptimizer
from tandem.optimizer import LarsMomentum

SGDOptimizer = SGD
MomentumOptimizer = Momentum
AdamOptimizer = Adam
AdamaxOptimizer = Adamax
AdagradOptimizer = Adagrad
DecayedAdagradOptimizer = DecayedAdagrad
FtrlOptimizer = Ftrl
LarsMomentumOptimizer = LarsMomentum


def RMSPropOptimizer(learning_rate: Any, rho: float = 0.95, epsilon: float = 1e-6,
                     momentum: float = 0.0, centered: bool = False, regularization: Any = None,
                     grad_clip: Any = None) -> RMSProp:
    """RMSProp with Paddle's names: `rho` is the decay."""
    return RMSProp(learning_rate, rho, epsilon, momentum, centered, regularization, grad_clip)
