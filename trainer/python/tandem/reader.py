"""Readers: a thread or a process prepares batches while the executor computes.

    reader = tandem.reader.DataLoader.from_generator([x, label], capacity=8)
    reader.set_batch_generator(batches)      # a function that yields (x, label) as arrays
    reader.start()
    try:
        while True:
            exe.run(fetch_list=[loss])       # takes the next batch from the reader
    except tandem.reader.EOFException:
        reader.reset()                       # ready for the next epoch
"""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy
import numpy.typing

from .dataset import Batch, Dataset
from .errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    UnimplementedError,
)
from .program import DTYPES, Program, Variable, data, default_main_program
from .table import Table

__all__ = [
    "DataLoader",
    "Dataset",
    "EOFException",
    "Reader",
    "Table",
    "batched",
    "py_reader",
    "read_file",
]

Array = numpy.typing.NDArray[Any]
Source = Callable[[], Iterable[Any]]

_NUMPY = {short: long for long, short in DTYPES.items() if long != "bfloat16"}
_POLL_S = 0.1  # how often a wait looks whether the other side has ended
_RESET_S = 5.0  # how long `reset` waits for the generator


class EOFException(OutOfRangeError):
    """The reader has no more batches in this epoch."""


class _Ended:
    """The end of the source, on its way to the thread that runs the program."""

    def __init__(self, error: Optional[BaseException] = None) -> None:
        self.error = error  # exception of the source; None: it has no more batches


class _Queue:
    """The batches that are ready."""

    def __init__(self, capacity: int) -> None:
        self._items: "queue.Queue[Any]" = queue.Queue(capacity)
        self._closed = threading.Event()
        self._capacity = capacity

    def size(self) -> int:
        """The number of batches that are ready."""
        return self._items.qsize()

    def capacity(self) -> int:
        """The largest number of batches."""
        return self._capacity

    def put(self, item: Any) -> bool:
        """Waits for room. Returns False after `close`."""
        while not self._closed.is_set():
            try:
                self._items.put(item, timeout=_POLL_S)
                return True
            except queue.Full:
                continue
        return False

    def get(self) -> Any:
        """Waits for an item."""
        while True:
            try:
                return self._items.get(timeout=_POLL_S)
            except queue.Empty:
                if self._closed.is_set():
                    return _Ended()

    def close(self) -> None:
        """Ends all waits."""
        self._closed.set()


def batched(source: Source, batch_size: int, drop_last: bool = False) -> Source:
    """Returns a function that yields lists of `batch_size` samples of `source`.

    Args:
        drop_last: leaves out the last samples if they are fewer than a batch.
    """

    def batches() -> Iterator[List[Any]]:
        samples = iter(source())
        while True:
            batch = list(itertools.islice(samples, batch_size))
            if not batch or (drop_last and len(batch) < batch_size):
                return
            yield batch

    return batches


def _send(source: Source, mine: Any, readers_end: Any) -> None:
    """Runs in the worker process. A send fails after the parent has ended."""
    readers_end.close()
    try:
        for item in source():
            mine.send((True, item))
        mine.send((True, None))
    except BrokenPipeError:
        return
    except BaseException as error:  # pylint: disable=broad-except
        mine.send((False, f"{type(error).__name__}: {error}"))


class Reader:
    """Feeds the variables of a program from a generator.

    `start`, the runs and `reset` must be in one thread.

    Args:
        variables: data variables of one program, in the order of the arrays of a batch.
        capacity: the largest number of batches that are ready.
        use_double_buffer: the reader's thread converts the arrays; False: the run does it.
        use_multiprocess: the generator runs in a separate process.

    Raises:
        InvalidArgumentError: no variable, or a capacity below 1.
    """

    def __init__(
        self,
        variables: Sequence[Variable],
        capacity: int = 8,
        use_double_buffer: bool = True,
        use_multiprocess: bool = False,
    ) -> None:
        if not variables or capacity < 1:
            raise InvalidArgumentError(
                f"a reader needs a variable and a capacity of at least 1, got {len(variables)} "
                f"variables and capacity {capacity} [TD1104]"
            )
        self._variables = [(v.name, _NUMPY.get(v.dtype, "uint16")) for v in variables]
        self._shapes = {v.name: [1 if dim < 0 else dim for dim in v.shape[1:]] for v in variables}
        self._capacity = capacity
        self._ahead = use_double_buffer
        self._process = use_multiprocess
        self._source: Optional[Source] = None
        self._of_samples = False
        self._queue = _Queue(capacity)
        self._thread: Optional[threading.Thread] = None
        self._ended: Optional[_Ended] = None  # what each further batch raises
        self._put_back: Optional[Batch] = None
        self.started = False

    # Sources

    def set_batch_generator(self, source: Source, places: Any = None) -> "Reader":
        """Sets a function that yields a batch at a time: arrays in the order of the variables, or
        a dictionary of arrays."""
        del places
        self._source, self._of_samples = source, False
        return self

    def set_sample_list_generator(self, source: Source, places: Any = None) -> "Reader":
        """Sets a function that yields a list of samples at a time. A sample has a value for each
        variable."""
        del places
        self._source, self._of_samples = source, True
        return self

    def set_sample_generator(
        self, source: Source, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> "Reader":
        """Sets a function that yields one sample at a time.

        Args:
            batch_size: samples of a batch.
            drop_last: leaves out the last samples if they are fewer than a batch.
        """

        return self.set_sample_list_generator(batched(source, batch_size, drop_last), places)

    # Paddle's names of the same for py_reader.
    decorate_tensor_provider = set_batch_generator
    decorate_batch_generator = set_batch_generator
    decorate_paddle_reader = set_sample_list_generator
    decorate_sample_list_generator = set_sample_list_generator
    decorate_sample_generator = set_sample_generator

    # An epoch

    @property
    def queue(self) -> _Queue:
        """The batches that are ready: `queue.size()`."""
        return self._queue

    def start(self) -> None:
        """Begins to read.

        Raises:
            FailedPreconditionError: the reader has no generator, or it has started.
        """
        if self._source is None:
            raise FailedPreconditionError(
                "the reader has no generator [TD1219]", "call set_batch_generator(...) first"
            )
        if self.started:
            raise FailedPreconditionError(
                "the reader has started already [TD1219]", "call reset() after each epoch"
            )
        self.started = True
        self._ended = self._put_back = None
        self._queue = _Queue(self._capacity)
        self._thread = threading.Thread(
            target=self._read, args=(self._source, self._queue), name="tandem-reader", daemon=True
        )
        self._thread.start()

    def reset(self) -> None:
        """Stops reading, so that `start` begins the next epoch. A generator that does not yield
        within 5 s is left to its thread, which ends after its next batch."""
        self._queue.close()
        if self._thread is not None:
            self._thread.join(_RESET_S)
        self._thread = None
        self.started = False

    def next_batch(self) -> Batch:
        """Waits for the next batch.

        Raises:
            EOFException: the generator has ended.
            FailedPreconditionError: the reader has not started.
        """
        if not self.started:
            raise FailedPreconditionError(
                "the program reads from a reader that has not started [TD1219]",
                "call start() on the reader, or give exe.run a feed",
            )
        if self._put_back is not None:
            first, self._put_back = self._put_back, None
            return first
        if self._ended is None:
            item = self._queue.get()
            if not isinstance(item, _Ended):
                batch: Batch = item if self._ahead else self._batch_of(item)
                return batch
            self._ended = item
        if self._ended.error is not None:
            raise self._ended.error
        raise EOFException("the reader has no more batches; call reset() [TD1219]")

    def put_back(self, batch: Batch) -> None:
        """Makes this reader's part of `batch`, the last one, the next one again."""
        self._put_back = {name: batch[name] for name, _ in self._variables}

    def __iter__(self) -> Iterator[Batch]:
        self.start()
        try:
            while True:
                try:
                    yield self.next_batch()
                except EOFException:
                    return
        finally:
            self.reset()

    def __call__(self) -> Iterator[Batch]:
        return iter(self)

    def _read(self, source: Source, ready: _Queue) -> None:
        try:
            items = self._from_process(source, ready) if self._process else source()
            for item in items:
                if not ready.put(self._batch_of(item) if self._ahead else item):
                    return
            ready.put(_Ended())
        except BaseException as error:  # pylint: disable=broad-except
            ready.put(_Ended(error))

    def _from_process(self, source: Source, ready: _Queue) -> Iterator[Any]:
        context = multiprocessing.get_context("fork")
        mine, workers_end = context.Pipe(duplex=False)
        worker = context.Process(target=_send, args=(source, workers_end, mine), daemon=True)
        worker.start()
        workers_end.close()
        try:
            while True:
                while not mine.poll(_POLL_S):
                    if ready._closed.is_set():
                        return
                fine, item = mine.recv()
                if not fine:
                    raise AbortedError(f"the reader's process failed: {item} [TD7005]")
                if item is None:
                    return
                yield item
        except EOFError:
            worker.join()
            raise AbortedError(
                f"the reader's process ended with code {worker.exitcode} [TD7005]"
            ) from None
        finally:
            worker.terminate()
            worker.join()
            mine.close()

    def _batch_of(self, item: Any) -> Batch:
        if isinstance(item, dict):
            given = item
        elif self._of_samples:
            given = self._stacked(item)
        else:
            self._check_count(len(item))
            given = {name: value for (name, _), value in zip(self._variables, item)}
        batch = {}
        for name, dtype in self._variables:
            if name not in given:
                raise InvalidArgumentError(f'the batch has no array "{name}" [TD1205]')
            batch[name] = _as(name, given[name], dtype)
        return batch

    def _stacked(self, samples: Sequence[Sequence[Any]]) -> Batch:
        for sample in samples:
            self._check_count(len(sample))
        return {
            name: numpy.asarray([sample[i] for sample in samples]).reshape(
                [len(samples), *self._shapes[name]]
            )
            for i, (name, _) in enumerate(self._variables)
        }

    def _check_count(self, count: int) -> None:
        if count != len(self._variables):
            names = ", ".join(name for name, _ in self._variables)
            raise InvalidArgumentError(
                f"the generator yields {count} values, but the reader has {len(self._variables)} "
                f"variables: {names} [TD1205]"
            )


def _as(name: str, value: Any, dtype: str) -> Array:
    """Returns a contiguous array of the type of the variable. Precision may be lost, but a float
    does not become an integer. The elements of bf16 are given as their bits, uint16."""
    array = numpy.asarray(value)
    bits = dtype == "uint16"
    if (bits and array.dtype != numpy.uint16) or not numpy.can_cast(
        array.dtype, dtype, "same_kind"
    ):
        raise InvalidArgumentError(
            f'the batch has {array.dtype} for "{name}", expected {dtype} [TD1207]'
        )
    return numpy.ascontiguousarray(array, dtype)


class DataLoader:
    """Makes readers with the names of Paddle."""

    @staticmethod
    def from_generator(
        feed_list: Sequence[Variable],
        capacity: int = 8,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
    ) -> Reader:
        """Returns a reader of the data variables `feed_list`.

        Args:
            iterable: the reader is used in a `for` loop that yields the feed of `exe.run`. False:
                the program takes its batches from the reader between `start` and `reset`.
            return_list: Paddle's dygraph form; not supported.
        """
        if return_list:
            raise InvalidArgumentError(
                "return_list=True is the form of dygraph, which Tandem does not have [TD1206]"
            )
        reader = Reader(feed_list, capacity, use_double_buffer, use_multiprocess)
        if not iterable:
            feed_list[0].program._readers.append(reader)
        return reader


class _PyReader(Reader):
    """A reader that has its own data variables."""

    def __init__(self, variables: List[Variable], capacity: int, use_double_buffer: bool) -> None:
        super().__init__(variables, capacity, use_double_buffer)
        self.variables = variables


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[str],
    lod_levels: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    use_double_buffer: bool = True,
) -> _PyReader:
    """Adds a data variable for each shape to the current program, and a reader of them.

    Args:
        capacity: the largest number of batches that are ready.
        shapes: the dimensions; the first is the batch, -1.
        dtypes: the element types.
        lod_levels: None or zeros.
        name: the prefix of the variables' names.
    """
    if lod_levels is not None and any(lod_levels):
        raise UnimplementedError("lod_levels above 0 are not implemented [TD1109]")
    if len(shapes) != len(dtypes):
        raise InvalidArgumentError(
            f"py_reader: got {len(shapes)} shapes and {len(dtypes)} dtypes, expected one dtype for "
            "each shape [TD1104]"
        )
    program = default_main_program()
    prefix = name or program.core.fresh_name("py_reader")
    variables = [
        data(f"{prefix}.{i}", [None, *shape[1:]], dtype)
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes))
    ]
    reader = _PyReader(variables, capacity, use_double_buffer)
    program._readers.append(reader)
    return reader


def read_file(reader: _PyReader) -> Union[Variable, Tuple[Variable, ...]]:
    """Returns the variables of a `py_reader`: a tuple, or the only one."""
    return reader.variables[0] if len(reader.variables) == 1 else tuple(reader.variables)


def next_feeds(program: Program, count: int) -> List[Batch]:
    """Returns the next batches of the readers of the program: up to `count`, all of one shape.

    Raises:
        EOFException: a reader has no more batches.
    """
    feeds: List[Batch] = []
    while len(feeds) < count:
        try:
            batch = _next_feed(program._readers)
        except EOFException:
            if not feeds:
                raise
            break  # the next call raises it again
        if feeds and any(batch[name].shape != array.shape for name, array in feeds[0].items()):
            for reader in program._readers:
                reader.put_back(batch)
            break
        feeds.append(batch)
    return feeds


def _next_feed(readers: Sequence[Reader]) -> Batch:
    batch: Batch = {}
    for reader in readers:
        batch.update(reader.next_batch())
    return batch
