"""Pulls of rows of tables: the rows of a forward call, and those of the next one, ahead of it."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy

from .. import _core


def _version_of(input: Any) -> int:
    """Returns torch's count of changes of a tensor; 0 in inference mode, which counts none."""
    return 0 if input.is_inference() else int(input._version)


class Index(NamedTuple):
    """The distinct ids of a tensor."""

    input: Any  # the tensor
    version: int  # torch's count of changes of the tensor
    height: int  # number of rows of the table
    ids: Any  # i64 [rows], the distinct ids, ascending
    places: Any  # i64 [ids of the input], the position of each id in `ids`

    def is_of(self, input: Any) -> bool:
        """Returns whether `input` has the same ids in the same order."""
        if self.input is input:
            return _version_of(input) == self.version
        same = self.input.shape == input.shape and _version_of(self.input) == self.version
        return same and bool((self.input == input).all())


class Rows(NamedTuple):
    """Rows of a table for one forward call."""

    index: Index
    values: Any  # f32 [rows, dim]; valid after the pull


class _Pull(NamedTuple):
    """A pull in progress. It keeps the arrays of its rows until it ends."""

    call: Any  # _core.PsCall
    version: int  # the version of the pulled rows
    rows: Dict[str, List[Rows]]  # by table; a forward call takes its entry


class RowPulls:
    """The pulls of the tables of one client. Announced tables share a call. Not thread-safe."""

    def __init__(self, client: Any, sizes: Dict[str, Tuple[int, int]], exactly: bool) -> None:
        """client: a _core.PsClient. sizes: number of rows and values of a row, by table. exactly:
        pulls receive rows of exactly their version, also if a server has a newer one already."""
        self._client, self._sizes, self._exactly = client, sizes, exactly
        self._announced: Dict[str, List[Rows]] = {}
        self._pulls: List[_Pull] = []
        self._indexes: List[Index] = []  # newest ones; tables with one input share its index
        self.ahead = 0  # forward calls whose rows were requested ahead

    def announce(self, table: str, input: Any) -> None:
        """Notes the ids of a later forward call.

        Raises:
            OutOfRangeError: an id is not in the table.
        """
        self._announced.setdefault(table, []).append(self._index(table, input))

    def begin_step(self, version: int) -> None:
        """Requests the announced rows of `version` in one call, without waiting for them. Forgets
        rows that were requested before and not used; the client keeps their arrays until their
        calls have ended."""
        rows, self._announced = self._announced, {}
        self._pulls, self._indexes = [], []
        self._request(version, rows)

    def take(self, table: str, input: Any, version: int) -> Rows:
        """Returns the rows of a forward call. Waits for them.

        Args:
            version: the version of the rows, or the lowest one. Rows that were requested ahead at
                another version are pulled again if the version must be exact.

        Raises:
            OutOfRangeError: an id is not in the table.
            Error: a server refuses the call, or is lost for longer than the time limit.
            KeyboardInterrupt: Ctrl-C while the call waits.
        """
        for at, rows in enumerate(self._announced.get(table, ())):
            if rows.index.is_of(input):
                self._request_first(at + 1, version)
                break
        for pull in self._pulls:
            for at, rows in enumerate(pull.rows.get(table, ())):
                if rows.index.is_of(input):
                    del pull.rows[table][at]
                    if self._exactly and pull.version != version:
                        break
                    pull.call.wait()
                    self.ahead += 1
                    return rows
        rows = self._index(table, input)
        self._start(version, {table: [rows]}).wait()
        return rows

    def forget(self) -> None:
        """Forgets what was announced and requested. Does not wait for the calls."""
        self._announced, self._pulls, self._indexes = {}, [], []

    def _request_first(self, count: int, version: int) -> None:
        """Requests the first `count` announced inputs of each table."""
        first = {table: rows[:count] for table, rows in self._announced.items()}
        self._announced = {table: rows[count:] for table, rows in self._announced.items()}
        self._request(version, first)

    def _request(self, version: int, rows: Dict[str, List[Rows]]) -> None:
        if any(rows.values()):
            self._pulls.append(_Pull(self._start(version, rows), version, rows))

    def _index(self, table: str, input: Any) -> Rows:
        height, dim = self._sizes[table]
        given = numpy.ascontiguousarray(input.detach().cpu().numpy().reshape(-1), numpy.int64)
        for index in self._indexes:
            # The ids are compared too: torch counts no changes through numpy.
            if index.input is input and index.height == height:
                if numpy.array_equal(index.ids[index.places], given):
                    break
        else:
            version = _version_of(input)
            index = Index(input, version, height, *_core.index_rows(given, height, table))
            self._indexes = [*self._indexes[1 - 2 * len(self._sizes) :], index]
        return Rows(index, numpy.empty((index.ids.size, dim), numpy.float32))

    def _start(self, version: int, rows: Dict[str, List[Rows]]) -> Any:
        return self._client.pull_rows(
            version,
            self._exactly,
            [(name, r.index.ids, r.values) for name, all in rows.items() for r in all],
        )


def sum_of_uses(
    uses: Sequence[Tuple[Any, Any]], dim: int, padding: Optional[int]
) -> Tuple[Any, Any]:
    """Returns ids, ascending, and the sum of their gradients.

    Args:
        uses: ids, ascending, and gradients of each forward call. A single gradient is returned
            itself, not a copy.
        padding: an id that is left out.
    """
    if not uses:
        return numpy.empty(0, numpy.int64), numpy.empty((0, dim), numpy.float32)
    ids, grads = uses[0]
    if len(uses) > 1:
        every = numpy.concatenate([ids for ids, _ in uses])
        ids, places = numpy.unique(every, return_inverse=True)
        grads = numpy.zeros((ids.size, dim), numpy.float32)
        numpy.add.at(grads, places, numpy.concatenate([grads for _, grads in uses]))
    if padding is not None:
        kept = ids != padding
        ids, grads = ids[kept], grads[kept]
    return ids, numpy.ascontiguousarray(grads)
