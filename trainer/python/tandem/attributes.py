"""The attributes of the parameters of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from .initializer import Initializer

__all__ = ["ParamAttr", "AttrLike"]


@dataclass(frozen=True)
class ParamAttr:
    """The name and the initial values of a parameter.

    Attributes:
        name: the name of the variable; None: the layer chooses it ("fc_0.w").
        initializer: the initial values; None: the default of the layer.
    """

    name: Optional[str] = None
    initializer: Optional[Initializer] = None


# The values that layers accept for a parameter: its attributes, its name or its initial values.
# None or True: the defaults. False: the layer has no such parameter.
AttrLike = Union[ParamAttr, str, Initializer, bool, None]


def attributes_of(given: AttrLike, default: Initializer) -> Optional[ParamAttr]:
    """Returns the attributes with the default filled in; None: the layer lacks the parameter."""
    if given is False:
        return None
    if given is None or given is True:
        return ParamAttr(None, default)
    if isinstance(given, str):
        return ParamAttr(given, default)
    if isinstance(given, Initializer):
        return ParamAttr(None, given)
    return ParamAttr(given.name, given.initializer or default)
