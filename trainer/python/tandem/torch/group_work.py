"""The works of `tandem.torch.process_group`: operations that run, and what happens at their end."""

from __future__ import annotations

import datetime
import queue
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from ..errors import DeadlineExceededError, FailedPreconditionError, ResourceExhaustedError

__all__ = ["Thread", "Work", "seconds"]

_CALLS_MAX = 1024  # waiting calls of a thread

_Base = dist._Work if hasattr(dist, "_Work") else dist.Work


def seconds(timeout: Any) -> Optional[float]:
    """Returns a timeout of PyTorch in seconds. None: it sets no limit."""
    if timeout is None or timeout.total_seconds() <= 0:
        return None
    return float(timeout.total_seconds())


def _with_limit(error: DeadlineExceededError, limit: Optional[float]) -> DeadlineExceededError:
    """Returns the error with the timeout of its operation in the message."""
    if limit is None or " within " in error.message:
        return error
    before, code, after = error.message.partition(" [TD")
    return DeadlineExceededError(
        f"{before} within the timeout of {limit:g} s{code}{after}", error.hint
    )


class Work(_Base):  # type: ignore[misc]
    """A collective of one rank. It ends when its operations have ended and `finish` has run.

    `finish` copies results to the caller's tensors. It runs once, on the first thread that sees the
    end of the operations. `run_later` calls a function on another thread. `limit`: the timeout of
    the operations in seconds, for messages."""

    def __init__(
        self,
        run_later: Callable[[Callable[[], None]], None],
        running: Sequence[Any],
        results: List[Any],
        finish: Optional[Callable[[], None]] = None,
        limit: Optional[float] = None,
    ) -> None:
        super().__init__()
        self._run_later = run_later
        self._running = list(running)
        self._results = results
        self._finish = finish
        self._limit = limit
        self._error: Optional[BaseException] = None
        self._ended = False
        self._lock = threading.Lock()

    def _end(self, limit: Optional[float]) -> None:
        """Waits for the end. DeadlineExceededError: `limit` seconds have passed first."""
        with self._lock:
            if self._ended:
                return
            try:
                end = None if limit is None else time.monotonic() + limit
                for part in self._running:
                    part.wait(None if end is None else max(0.0, end - time.monotonic()))
                if self._finish is not None:
                    self._finish()
            except DeadlineExceededError as error:
                if not all(part.finished for part in self._running):
                    raise
                self._error = _with_limit(error, self._limit)
            except Exception as error:  # pylint: disable=broad-except
                self._error = error
            self._ended = True
            self._running, self._finish = [], None

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        """Blocks until the collective has ended. Raises its error."""
        self._end(seconds(timeout))
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._ended:
            return True
        if not all(part.finished for part in list(self._running)):
            return False
        self._end(None)
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[Any]:
        self.wait()
        return self._results

    def get_future(self) -> Any:
        """Returns a future whose value is the list of the result tensors."""
        ended = torch.futures.Future()

        def value(_: Any) -> List[Any]:
            if self._error is not None:
                raise self._error
            return self._results

        # The error is raised in `then`, because the C++ code of PyTorch sees only such errors.
        future = ended.then(value)

        def resolve() -> None:
            self._end(None)
            ended.set_result(None)

        self._run_later(resolve)
        return future


class Thread:
    """A daemon thread that calls functions in the order of `submit`. It ends with this object."""

    def __init__(self, name: str) -> None:
        self._calls: queue.Queue[Optional[Callable[[], None]]] = queue.Queue()
        self._stopped = False
        self._thread = threading.Thread(target=_loop, args=(self._calls,), name=name, daemon=True)
        self._thread.start()

    def __del__(self) -> None:
        self._calls.put(None)

    def submit(self, call: Callable[[], None]) -> None:
        """Queues a call.

        Raises:
            FailedPreconditionError: the thread was stopped, so the call would never run.
            ResourceExhaustedError: _CALLS_MAX calls wait already.
        """
        if self._stopped:
            raise FailedPreconditionError(
                f"{self._thread.name}: the process group was closed [TD1219]"
            )
        if self._calls.qsize() >= _CALLS_MAX:
            raise ResourceExhaustedError(
                f"{self._thread.name}: {_CALLS_MAX} calls wait already; hint: wait for some works"
            )
        self._calls.put(call)

    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Ends the thread after the calls so far, or leaves it after one second."""
        self._stopped = True
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(1.0)


def _loop(calls: queue.Queue[Optional[Callable[[], None]]]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call
