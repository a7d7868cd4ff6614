"""Every operator of Tandem as a function.

The functions are made from the operator table when the package is imported. A function has the
input slots of its operator as arguments, and the attributes as keyword arguments. It adds the
operator to the current program and returns the variable of its output; an operator with several
outputs returns a tuple. `help(tandem.ops.conv2d)` prints slots, attributes and defaults, and
docs/reference/operators.md has all of them.

    out = tandem.ops.conv2d(x, filter, paddings=[1, 1])
    parts = tandem.ops.split(x, axis=1, num=2, outputs={"Out": ["a", "b"]})

Keyword arguments of every function:
    outputs: names of output variables by slot.
    run_if: an f32 variable of one element; the operator runs if it is not 0.

A name that Python reserves gets an underscore: `from_`.
"""

from .operators import FUNCTIONS

globals().update(FUNCTIONS)
__all__ = sorted(FUNCTIONS)


def __getattr__(name: str) -> object:
    raise AttributeError(f"there is no operator {name!r}; tandem.ops.__all__ lists all operators")
