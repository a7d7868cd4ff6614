"""Messages between two ranks of a process group. Each direction and tag has a separate channel."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any, Callable, Dict, Optional, Tuple

from ..errors import DeadlineExceededError, InvalidArgumentError, ResourceExhaustedError
from .group_connect import connect
from .group_work import Thread

__all__ = ["Channel", "Channels", "Message"]

_CHANNELS_MAX = 256  # channels of a group; each has two threads at both ends


class Message:
    """A message of a channel; it has the methods of `_core.Work`."""

    def __init__(self, running: concurrent.futures.Future[None]) -> None:
        self._running = running

    @property
    def finished(self) -> bool:
        return self._running.done()

    def wait(self, timeout: Optional[float] = None) -> None:
        try:
            self._running.result(timeout)
        except concurrent.futures.TimeoutError as error:
            if self._running.done():
                raise
            raise DeadlineExceededError("a message is still on its way") from error


class Channel:
    """The messages of one tag from one rank to another, in order. The two ranks connect when the
    first message is sent or received, so that neither waits for other ranks."""

    def __init__(self, connect: Callable[[Callable[[], bool]], Any], name: str) -> None:
        """connect: connects the two ranks. Its argument returns whether the channel was closed."""
        self._connect = connect
        self._communicator: Any = None
        self._thread = Thread(name)

    def submit(self, call: Callable[[Any], None]) -> Message:
        running: concurrent.futures.Future[None] = concurrent.futures.Future()

        def run() -> None:
            try:
                if self._communicator is None:
                    self._communicator = self._connect(self._thread.is_stopped)
                call(self._communicator)
            except BaseException as error:  # pylint: disable=broad-except
                running.set_exception(error)
            else:
                running.set_result(None)

        self._thread.submit(run)
        return Message(running)

    def close(self, why: str) -> None:
        if self._communicator is not None:
            self._communicator.close(why)
        self._thread.stop()


class Channels:
    """The channels of one rank of a group. Thread-safe."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float) -> None:
        """timeout: seconds that the connection of a channel may take."""
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._channels: Dict[Tuple[int, int, int], Channel] = {}
        self._lock = threading.Lock()

    def message(
        self, sender: int, receiver: int, tag: int, **arguments: Any
    ) -> Callable[[Optional[float]], Message]:
        """Returns a function that starts a message with a timeout in seconds, or without one (None).

        Raises:
            InvalidArgumentError: sender and receiver are not two ranks of the group.
            ResourceExhaustedError: this rank has too many channels.
        """
        channel = self._channel(sender, receiver, tag)

        def start(timeout: Optional[float]) -> Message:
            def call(communicator: Any) -> None:
                communicator.start("SendRecv", timeout=timeout, **arguments).wait()

            return channel.submit(call)

        return start

    def close(self, why: str) -> None:
        """Ends the messages of all channels."""
        for channel in list(self._channels.values()):
            channel.close(why)

    def _channel(self, sender: int, receiver: int, tag: int) -> Channel:
        if sender == receiver or not (0 <= sender < self._size and 0 <= receiver < self._size):
            raise InvalidArgumentError(
                f"a message from rank {sender} to rank {receiver}: expected two of the "
                f"{self._size} ranks"
            )
        with self._lock:
            key = (sender, receiver, tag)
            if key not in self._channels:
                if len(self._channels) >= _CHANNELS_MAX:
                    raise ResourceExhaustedError(
                        f"this rank has {_CHANNELS_MAX} channels, expected at most that many "
                        "combinations of rank and tag; hint: use fewer tags"
                    )
                name = f"tandem/{sender}>{receiver}/{tag}"
                rank = 0 if self._rank == sender else 1
                self._channels[key] = Channel(
                    lambda stopped: connect(
                        self._store, name, rank, 2, self._timeout, stopped
                    ),
                    name,
                )
            return self._channels[key]
