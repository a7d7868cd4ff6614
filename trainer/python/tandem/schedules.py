"""The learning rate as a function of the step. The formulas are those of jobs
(`optimizer { schedule { ... } }`, docs/reference/job-file.md).

    optimizer = tandem.optimizer.Adam(tandem.schedules.cosine(0.002, decay_steps=4221))

Steps count from 0. `warmup_steps` is the number of steps in which the rate grows linearly from 0,
before the schedule. The factors are of the learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence

from . import _core

__all__ = ["Schedule", "constant", "cosine", "exponential", "piecewise", "polynomial"]


@dataclass(frozen=True)
class Schedule:
    """A learning rate and its schedule. Use one of the functions of this module.

    Attributes:
        learning_rate: the rate before all factors.
        text: the fields of LearningRateSchedule (proto/job.proto) as text.
    """

    learning_rate: float
    text: str = ""

    def build(self) -> _core.LrSchedule:
        """Returns the schedule of the C++ library.

        Raises:
            InvalidArgumentError: a value is out of range.
        """
        return _core.LrSchedule(self.learning_rate, self.text)

    def at(self, step: int) -> float:
        """Returns the learning rate of a step, from 0."""
        return self.build().at(step)


def _fields(kind: str, warmup_steps: int, lines: List[str]) -> str:
    if warmup_steps:
        lines = [*lines, f"warmup_steps: {warmup_steps}"]
    return " ".join([f"kind: {kind}", *lines])


def constant(learning_rate: float, warmup_steps: int = 0) -> Schedule:
    """The same rate in all steps."""
    return Schedule(learning_rate, _fields("CONSTANT", warmup_steps, []))


def piecewise(
    learning_rate: float,
    boundaries: Sequence[int],
    factors: Sequence[float],
    warmup_steps: int = 0,
) -> Schedule:
    """factors[i] from step boundaries[i - 1] on; there is one factor more than boundaries."""
    lines = [f"boundary: {step}" for step in boundaries] + [f"value: {f!r}" for f in factors]
    return Schedule(learning_rate, _fields("PIECEWISE", warmup_steps, lines))


def exponential(
    learning_rate: float,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    warmup_steps: int = 0,
) -> Schedule:
    """decay_rate ^ (step / decay_steps); with `staircase`, whole decay_steps only."""
    lines = [f"decay_steps: {decay_steps}", f"decay_rate: {decay_rate!r}"]
    lines += ["staircase: true"] if staircase else []
    return Schedule(learning_rate, _fields("EXPONENTIAL", warmup_steps, lines))


def cosine(
    learning_rate: float, decay_steps: int, end_factor: float = 0.0, warmup_steps: int = 0
) -> Schedule:
    """Half a cosine from 1 to end_factor over decay_steps."""
    lines = [f"decay_steps: {decay_steps}", f"end_factor: {end_factor!r}"]
    return Schedule(learning_rate, _fields("COSINE", warmup_steps, lines))


def polynomial(
    learning_rate: float,
    decay_steps: int,
    end_factor: float = 0.0,
    power: float = 1.0,
    warmup_steps: int = 0,
) -> Schedule:
    """end_factor + (1 - end_factor) (1 - step / decay_steps) ^ power, then end_factor."""
    lines = [
        f"decay_steps: {decay_steps}",
        f"end_factor: {end_factor!r}",
        f"power: {power!r}",
    ]
    return Schedule(learning_rate, _fields("POLYNOMIAL", warmup_steps, lines))
