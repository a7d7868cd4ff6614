"""Clips of gradients."""

from typing import Optional

from tandem.errors import UnimplementedError
from tandem.optimizer import ClipByGlobalNorm, ClipByNorm, ClipByValue

__all__ = ["GradientClipByGlobalNorm", "GradientClipByNorm", "GradientClipByValue"]


def GradientClipByValue(max: float, min: Optional[float] = None) -> ClipByValue:
    """Limits each element to [min, max]; min: -max if it is None."""
    return ClipByValue(-max if min is None else min, max)


def GradientClipByNorm(clip_norm: float) -> ClipByNorm:
    """Scales the gradient of a parameter down to this norm."""
    return ClipByNorm(clip_norm)


def GradientClipByGlobalNorm(clip_norm: float, group_name: str = "default_group") -> ClipByGlobalNorm:
    """Scales all gradients together down to this norm."""
    if group_name != "default_group":
        raise UnimplementedError(
            f"GradientClipByGlobalNorm: group_name={group_name!r} is not implemented [TD1109]"
        )
    return ClipByGlobalNorm(clip_norm)
