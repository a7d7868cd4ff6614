"""Columns of a table from objects in memory: frames of pandas, dictionaries of arrays, arrays."""

from __future__ import annotations

import importlib
import os
from typing import Any, Iterable, List, Mapping, NamedTuple, Tuple, Union

import numpy
import numpy.typing

from .errors import InvalidArgumentError, UnimplementedError

__all__ = ["Column", "Columns", "columns_of", "source_of"]

Numbers = numpy.typing.NDArray[numpy.float64]
Column = Tuple[str, Union[Numbers, List[str]]]

_EXACT = 2**53  # a float64 is exact for whole numbers up to this one
_BLANKS = " \t"  # what a csv reader removes around a text
_OTHER = "expected numbers, texts, bools, dates or times"


class Columns(NamedTuple):
    """The columns of a table.

    Attributes:
        name: of the table, in messages.
        arrays: the columns of an array "x" are "x.0", "x.1", ...; False: names are plain.
        columns: name and values of each. Numbers are float64 with NaN for a missing value. Texts
            are "" for a missing value.
    """

    name: str
    arrays: bool
    columns: List[Column]


def source_of(data: Any) -> Union[List[str], Columns]:
    """Returns the absolute paths of the files of a table, or the columns of a table in memory. Reads
    a single Parquet file into memory if pyarrow is there.

    Args:
        data: a path, a list of paths, or what `columns_of` takes.

    Raises:
        InvalidArgumentError, UnimplementedError: see `columns_of`.
    """
    if _is_path(data):
        path = os.fspath(data)
        parquet = _read_parquet(path) if path.endswith((".parquet", ".pq")) else None
        data = [path] if parquet is None else parquet
    if isinstance(data, (list, tuple)) and len(data) > 0 and all(map(_is_path, data)):
        return [os.path.abspath(path) for path in data]
    return columns_of(data)


def _is_path(data: Any) -> bool:
    return isinstance(data, (str, os.PathLike))


def _read_parquet(path: str) -> Any:
    """Returns the columns of a Parquet file, as `columns_of` takes them; None: pyarrow is missing."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        return None
    table = parquet.read_table(path)
    return {name: numpy.array(table.column(name).to_pylist(), dtype=object)
            for name in table.column_names}


def columns_of(data: Any) -> Columns:
    """Converts a table to columns with the values that a csv or npz file of it would have. Removes
    blanks at the ends of texts, as the reader of csv files does.

    Args:
        data: a DataFrame of pandas, an object with `to_pandas()` such as a table of pyarrow, a
            dictionary of arrays, or an array [rows, columns], whose name is "x".

    Raises:
        InvalidArgumentError: `data` is something else, or a dictionary has no array.
        UnimplementedError: a column has elements that a table has no kind for.
    """
    if not _is_frame(data) and hasattr(data, "to_pandas"):
        data = data.to_pandas()
    if _is_frame(data):
        columns = [_column(_name(name), data.iloc[:, i]) for i, name in enumerate(data.columns)]
        return Columns("the frame", False, [one for some in columns for one in some])
    if isinstance(data, numpy.ndarray) and data.dtype.names is not None:
        data = {name: data[name] for name in data.dtype.names}
    elif isinstance(data, numpy.ndarray):
        if data.ndim < 2:
            raise InvalidArgumentError(
                f"the array has {data.ndim} dimensions, expected [rows, columns] [TD1207]",
                'give a dictionary: {"x": array, "y": labels}',
            )
        data = {"x": data}
    if not isinstance(data, Mapping):
        raise InvalidArgumentError(
            f"the table is a {type(data).__name__}, expected a DataFrame, a dictionary of arrays, an "
            "array or a path [TD1206]",
            'give a dictionary: {"x": array, "y": labels}',
        )
    parts = [_column(_name(name), values) for name, values in data.items()]
    return Columns("the table", True, [one for some in parts for one in some])


def _is_frame(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("iloc", "columns", "dtypes"))


def _name(name: Any) -> str:
    return ".".join(map(str, name)) if isinstance(name, tuple) else str(name)


def _column(name: str, values: Any) -> List[Column]:
    """The columns of a value of a dictionary or a frame: one, or those of an array with more."""
    try:
        array = numpy.asarray(values)
    except ValueError as error:  # lists of different lengths
        raise InvalidArgumentError(
            f'column "{name}" is no array: {error} [TD1207]', "give every row the same number of values"
        ) from None
    if array.ndim == 0:
        raise InvalidArgumentError(
            f'column "{name}" is one value, expected an array with a value for each row [TD1207]'
        )
    if array.ndim == 1:
        return [(name, _values(name, array))]
    rows = array.shape[0]
    flat = array.reshape(rows, -1) if rows > 0 else array.reshape(0, 1)
    if flat.shape[1] == 1:
        return [(name, _values(name, flat[:, 0]))]
    return [(f"{name}.{k}", _values(f"{name}.{k}", flat[:, k])) for k in range(flat.shape[1])]


def _values(name: str, array: numpy.typing.NDArray[Any]) -> Union[Numbers, List[str]]:
    kind = array.dtype.kind
    if kind in "iu" and array.size > 0 and (array.max() >= _EXACT or array.min() <= -_EXACT):
        return [str(value) for value in array.tolist()]
    if kind in "fbiu":
        return numpy.ascontiguousarray(array, numpy.float64)
    if kind == "M":
        return _times(array)
    if kind == "U":
        return [value.strip(_BLANKS) for value in array.tolist()]
    if kind == "S":
        return [_decoded(name, value) for value in array.tolist()]
    if kind == "O":
        return _objects(name, array.tolist())
    hint = "use array.total_seconds() or divide by a timedelta" if kind == "m" else ""
    raise UnimplementedError(
        f'column "{name}" has elements of type {array.dtype}, {_OTHER} [TD2009]', hint
    )


def _times(array: numpy.typing.NDArray[Any]) -> List[str]:
    unit, _ = numpy.datetime_data(array.dtype)
    exact = array.astype("datetime64[D]") if unit in ("Y", "M", "W", "generic") else array
    texts = numpy.datetime_as_string(exact).tolist()
    return ["" if text == "NaT" else text for text in texts]


def _decoded(name: str, value: bytes) -> str:
    try:
        return value.decode("utf-8").strip(_BLANKS)
    except UnicodeDecodeError:
        raise InvalidArgumentError(
            f'column "{name}" has the bytes {value!r}, expected texts in UTF-8 [TD2009]'
        ) from None


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (float, numpy.floating)):
        return bool(numpy.isnan(value))
    return isinstance(value, numpy.datetime64) and bool(numpy.isnat(value))


def _all(values: Iterable[Any], kinds: Tuple[type, ...]) -> bool:
    return all(isinstance(value, kinds) for value in values)


def _objects(name: str, values: List[Any]) -> Union[Numbers, List[str]]:
    """The values of a column of Python objects: numbers if all are bools, or all are numbers."""
    missing = [_is_missing(value) for value in values]
    present = [value for value, is_missing in zip(values, missing) if not is_missing]
    if not present:
        return numpy.full(len(values), numpy.nan)
    bools = (bool, numpy.bool_)
    numbers = (int, float, numpy.integer, numpy.floating)
    plain = _all(present, numbers) and not any(isinstance(value, bools) for value in present)
    exact = plain and all(
        isinstance(value, (float, numpy.floating)) or abs(int(value)) < _EXACT for value in present
    )
    if _all(present, bools) or exact:
        return numpy.array([numpy.nan if is_missing else float(value)
                            for value, is_missing in zip(values, missing)], numpy.float64)
    return ["" if is_missing else _text(name, value)
            for value, is_missing in zip(values, missing)]


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value.strip(_BLANKS)
    if isinstance(value, bytes):
        return _decoded(name, value)
    if isinstance(value, (list, tuple, set, dict, numpy.ndarray)):
        raise UnimplementedError(
            f'column "{name}" has a {type(value).__name__} as a value, {_OTHER} [TD2009]',
            "make a column of each element",
        )
    if isinstance(value, numpy.datetime64):
        return str(numpy.datetime_as_string(value))
    return str(value)
