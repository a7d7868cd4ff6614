"""Tables of rows, of which the servers keep those that have had a gradient."""

from typing import NamedTuple

INIT_KINDS = ("constant", "uniform", "normal", "xavier_uniform", "msra_normal")


class Table(NamedTuple):
    """A variable [height, dim]. A row without a gradient is what `seed`, the variable's name and
    the row's id make of `init`: constant (a), uniform in [a, b), normal (mean a, deviation b), ...
    `rules` say when rows come and go: "admit_count=5 shrink_every=1000 ttl=20000", as the job
    file's table_rules; "": at the first gradient, and never. A wrong one: InvalidArgument from
    `configure`. With "accessor=ctr" a row keeps how often it was shown and clicked, which a push
    brings; its first value is a weight, the others read as 0 until its score reaches
    embedx_threshold.
    """
    height: int
    dim: int
    init: str = "constant"
    a: float = 0.0
    b: float = 0.0
    seed: int = 0
    rules: str = ""
