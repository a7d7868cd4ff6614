"""Tables of rows. The servers store the rows that have had a gradient."""

from typing import NamedTuple

INIT_KINDS = ("constant", "uniform", "normal", "xavier_uniform", "msra_normal")


class Table(NamedTuple):
    """A variable [height, dim]. The values of a row without a gradient follow from `seed`, the
    variable's name, the row's id and `init`: constant (a), uniform in [a, b), normal (mean a,
    deviation b), ... `rules` control the admission and removal of rows, in the syntax of
    table_rules in a job file: "admit_count=5 shrink_every=1000 ttl=20000". "": rows are created at
    the first gradient and never removed. INVALID_ARGUMENT from `configure`: invalid rules.
    With "accessor=ctr" a row counts its shows and clicks, which are part of a push. Its first value
    is a weight; the others read as 0 until its score reaches embedx_threshold.
    """
    height: int
    dim: int
    init: str = "constant"
    a: float = 0.0
    b: float = 0.0
    seed: int = 0
    rules: str = ""
