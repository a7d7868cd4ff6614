"""Tables of rows, of which the servers keep those that have had a gradient."""

from typing import NamedTuple

INIT_KINDS = ("constant", "uniform", "normal", "xavier_uniform", "msra_normal")


class Table(NamedTuple):
    """A variable [height, dim]. A row without a gradient is what `seed`, the variable's name and
    the row's id make of `init`: constant (a), uniform in [a, b), normal (mean a, deviation b), ...
    """
    height: int
    dim: int
    init: str = "constant"
    a: float = 0.0
    b: float = 0.0
    seed: int = 0
