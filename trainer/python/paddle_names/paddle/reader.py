"""Decorators of sample generators."""

from __future__ import annotations

import random
from typing import Any, Callable, Iterable, Iterator

from tandem.reader import batched as batch

__all__ = ["batch", "buffered", "firstn", "map_readers", "shuffle"]

Reader = Callable[[], Iterable[Any]]


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Returns a reader that shuffles each `buf_size` samples."""

    def shuffled() -> Iterator[Any]:
        for samples in batch(reader, buf_size)():
            random.shuffle(samples)
            yield from samples

    return shuffled


def firstn(reader: Reader, n: int) -> Reader:
    """Returns a reader of the first n samples."""

    def first() -> Iterator[Any]:
        for i, sample in enumerate(reader()):
            if i == n:
                return
            yield sample

    return first


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """Returns a reader of func(sample of each reader)."""

    def mapped() -> Iterator[Any]:
        return map(func, *(reader() for reader in readers))

    return mapped


def buffered(reader: Reader, size: int) -> Reader:
    """Returns the reader: the queues of tandem.reader read ahead."""
    del size
    return reader
