"""Learning rates by step, with Paddle's arguments, over tandem.schedules."""

from typing import Sequence

from tandem import schedules
from tandem.errors import UnimplementedError
from tandem.schedules import Schedule

__all__ = ["cosine_decay", "exponential_decay", "piecewise_decay", "polynomial_decay"]


def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float,
                      staircase: bool = False) -> Schedule:
    """learning_rate decay_rate ^ (step / decay_steps)."""
    return schedules.exponential(learning_rate, decay_steps, decay_rate, staircase)


def piecewise_decay(boundaries: Sequence[int], values: Sequence[float]) -> Schedule:
    """values[i] from step boundaries[i - 1] on."""
    first = values[0]
    return schedules.piecewise(first, boundaries, [value / first for value in values])


def polynomial_decay(learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001,
                     power: float = 1.0, cycle: bool = False) -> Schedule:
    """From learning_rate to end_learning_rate in decay_steps."""
    if cycle:
        raise UnimplementedError("polynomial_decay: cycle=True is not implemented [TD1109]")
    return schedules.polynomial(learning_rate, decay_steps, end_learning_rate / learning_rate, power)


def cosine_decay(learning_rate: float, step_each_epoch: int, epochs: int) -> Schedule:
    """Half a cosine over all epochs. The rate changes with each step, in Paddle with each epoch."""
    return schedules.cosine(learning_rate, step_each_epoch * epochs)
