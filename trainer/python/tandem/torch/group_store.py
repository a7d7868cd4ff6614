"""Waits for keys of a store of PyTorch."""

from __future__ import annotations

import time
from typing import Any, Callable, List, Sequence, TypeVar

__all__ = ["wait_for_keys"]

_PAUSE_MAX = 0.02  # seconds between two reads of the store

Name = TypeVar("Name", str, int)


def wait_for_keys(
    store: Any,
    prefix: str,
    names: Sequence[Name],
    end: float,
    stopped: Callable[[], bool] = lambda: False,
) -> List[Name]:
    """Waits until another rank has added to the keys `prefix/name` of all names. Returns the names
    whose keys are not set at `end`, in their order.

    A blocking call of a store keeps all other threads of this process from the store, so that two
    ranks could wait for each other; this loop does not.

    Args:
        end: a time of time.monotonic(). Keys that are set by then are always found.
        stopped: if it returns True, the function does not wait any longer.
    """
    pause = 0.001
    left = list(names)
    while True:
        late = time.monotonic() >= end
        left = [name for name in left if store.add(f"{prefix}/{name}", 0) == 0]
        if not left or late or stopped():
            return left
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(2 * pause, _PAUSE_MAX)
