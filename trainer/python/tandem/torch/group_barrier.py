"""The monitored barrier of `tandem.torch.process_group`, which names the ranks that do not come."""

from __future__ import annotations

import time
from typing import Any

from ..errors import DeadlineExceededError
from .group_store import wait_for_keys

__all__ = ["MonitoredBarrier"]


class _BarrierError(DeadlineExceededError, RuntimeError):
    """A rank did not reach the barrier. Programs for gloo catch RuntimeError."""


class MonitoredBarrier:
    """A barrier through the store of the group, so that a failure does not end the communicator.

    Each rank announces itself. Rank 0 waits for all ranks, and then announces the outcome. The
    messages contain those of gloo. Not thread-safe."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = store
        self._rank, self._size = rank, size
        self._round = 0

    def wait(self, limit: float, name_all: bool) -> None:
        """Blocks until all ranks have called `wait`.

        `limit`: seconds. `name_all`: the error of rank 0 names all ranks that are missing; False:
        only the first one. Raises DeadlineExceededError, which is also a RuntimeError."""
        self._round += 1
        key = f"tandem/barrier/{self._round}"
        end = time.monotonic() + limit
        if self._rank == 0:
            self._lead(key, end, limit, name_all)
        else:
            self._follow(key, end)

    def _lead(self, key: str, end: float, limit: float, name_all: bool) -> None:
        missing = wait_for_keys(self._store, key, range(1, self._size), end)
        if not missing:
            self._store.set(key + "/outcome", "")
            self._store.add(key + "/ended", 1)
            return
        named = missing if name_all else missing[:1]
        ranks = ("Ranks " if len(named) > 1 else "Rank ") + ", ".join(map(str, named))
        text = f"{ranks} failed to pass monitoredBarrier in {1000 * limit:.0f} ms"
        if limit <= 0:
            text = f"Rank 0 timed out in monitoredBarrier after 0 ms, before rank {missing[0]} came"
        self._store.set(key + "/outcome", text)
        self._store.add(key + "/ended", 1)
        raise _BarrierError(f"{text} [TD3006]", "find the reason in the logs of the named ranks")

    def _follow(self, key: str, end: float) -> None:
        self._store.add(f"{key}/{self._rank}", 1)
        late = wait_for_keys(self._store, key, ["ended"], end)
        outcome = "rank 0 announced no outcome" if late else self._store.get(key + "/outcome").decode()
        if outcome:
            raise _BarrierError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while "
                f"waiting for send/recv from rank 0: {outcome} [TD3006]"
            )
