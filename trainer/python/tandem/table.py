"""Tables of rows as datasets: from pandas, numpy or files. Also `tandem.reader.Table`."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _core
from .columns import source_of
from .dataset import Dataset
from .errors import InvalidArgumentError

__all__ = ["Table"]

Names = Union[str, Sequence[str]]


class Table(Dataset):
    """The rows of a table, with the kinds, splits and bits of a job with a csv or npz file of them.

        table = tandem.reader.Table(frame, label="species", split="0.8/0.1/0.1", standardise=True)
        for feed in table.batches(32, epochs=5):
            exe.run(feed=feed)
        for feed in table.test.batches(32, shuffle=False):
            exe.run(test, feed)

    A value is missing if it is NaN, None, NaT, pandas.NA, an empty text or one of the texts in
    `missing`. Bools are 0 and 1. The index of a frame is not used. Thread-safe.

    Args:
        data: a DataFrame, an object with `to_pandas()`, a dictionary of arrays, an array [rows,
            columns] with the name "x", or the path or paths of csv, npz, npy or Parquet files. Files
            of Parquet need pyarrow.
        label, target, weight: the names of the columns of these kinds.
        kinds: the kinds of other columns, by name: {"city": "ONE_HOT"}.
        classes: the classes of label columns in their order, by name.
        max_bad_records: how many rows with wrong values may be skipped.
        options: the other fields of `data.table` of a job (docs/reference/job-file.md).

    Raises:
        InvalidArgumentError: a name, an option or the shape of the columns is wrong.
        DataLossError: there are more bad rows than allowed. The message names the first ten values.
        UnimplementedError: a column has elements that a table has no kind for.
        FileMissingError: there is no such file.
    """

    def __init__(
        self,
        data: Any,
        label: Optional[Names] = None,
        target: Optional[Names] = None,
        weight: Optional[str] = None,
        kinds: Optional[Mapping[str, str]] = None,
        classes: Optional[Mapping[str, Sequence[Any]]] = None,
        max_bad_records: int = 0,
        **options: Any,
    ) -> None:
        entries = _entries(label, target, weight, kinds or {}, classes or {})
        fields = [f"{name}: {one}" for name, value in options.items() for one in _values(value)]
        source = source_of(data)
        if isinstance(source, list):
            fields += [f"file: {_quoted(path)}" for path in source]
        text = (f'format: "table" dir: "/" max_bad_records: {max_bad_records} '
                f"table {{ {' '.join(fields + entries)} }}")
        if isinstance(source, list):
            super().__init__(text, "/")
        else:
            self._core = _core.Dataset(text, "", source)


def _quoted(text: Any) -> str:
    return json.dumps(str(text), ensure_ascii=False)


def _values(value: Any) -> List[str]:
    """The values of a field in the text of a job."""
    if isinstance(value, (list, tuple)):
        return [text for one in value for text in _values(one)]
    if isinstance(value, bool):
        return [str(value).lower()]
    return [str(value) if isinstance(value, (int, float)) else _quoted(value)]


def _listed(names: Optional[Names]) -> List[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _entries(
    label: Optional[Names],
    target: Optional[Names],
    weight: Optional[str],
    kinds: Mapping[str, str],
    classes: Mapping[str, Sequence[Any]],
) -> List[str]:
    """The entries `column` of the text of a job."""
    given: List[Tuple[str, str]] = []
    for kind, names in (("LABEL", label), ("TARGET", target), ("WEIGHT", weight)):
        given += [(name, kind) for name in _listed(names)]
    known: Dict[str, str] = dict(given)
    for name, kind in kinds.items():
        if known.get(name, kind) != kind:
            raise InvalidArgumentError(
                f'column "{name}" has the kinds {known[name]} and {kind}, expected one [TD1108]'
            )
        if name not in known:
            given.append((name, kind))
    for name in classes:
        if name not in known and name not in kinds:
            given.append((name, "LABEL"))
    entries = []
    for name, kind in given:
        named = "".join(f" class: {_quoted(one)}" for one in classes.get(name, ()))
        entries.append(f"column {{ name: {_quoted(name)} kind: {_quoted(kind)}{named} }}")
    return entries
