"""Files for tables that are in memory, for jobs in processes of their own."""

from __future__ import annotations

import csv
import os
import zipfile
from typing import Any, Dict, List

import numpy

from .columns import Columns, source_of
from .errors import InvalidArgumentError

__all__ = ["settings_of"]


def settings_of(data: Any, directory: str) -> Dict[str, str]:
    """Returns the fields of a job that make it read a table.

    Args:
        data: what `tandem.reader.Table` takes. Columns in memory are written into `directory`.

    Raises:
        InvalidArgumentError, UnimplementedError: `data` is no table.
    """
    source = source_of(data)
    if isinstance(source, list):
        paths = source
        folder = os.path.dirname(paths[0])
        if all(os.path.dirname(path) == folder for path in paths):
            paths = [os.path.basename(path) for path in paths]
        for path in paths:
            if "," in path:
                raise InvalidArgumentError(
                    f"the path {path} has a comma, which `data` of fit does not accept [TD1103]",
                    "name the file in the job: data { table { file: ... } }",
                )
        return {"data.format": "table", "data.dir": folder, "data.table.file": ",".join(paths)}
    return {"data.format": "table", "data.dir": directory, "data.table.separator": ",",
            "data.table.file": os.path.basename(_write(source, directory))}


def _write(table: Columns, directory: str) -> str:
    """Writes a table and returns the path. Arrays of numbers keep their names in a file of numpy."""
    numbers = all(not isinstance(values, list) for _, values in table.columns)
    if table.arrays and numbers and not any("/" in name for name, _ in table.columns):
        path = os.path.join(directory, "data.npz")
        with zipfile.ZipFile(path, "w") as archive:
            for name, values in table.columns:
                with archive.open(name + ".npy", "w", force_zip64=True) as file:
                    numpy.save(file, numpy.asarray(values), allow_pickle=False)
        return path
    path = os.path.join(directory, "data.csv")
    texts: List[List[Any]] = [
        values if isinstance(values, list) else [_number(value) for value in values.tolist()]
        for _, values in table.columns
    ]
    rows = {len(values) for values in texts}
    if len(rows) > 1:
        raise InvalidArgumentError(
            f"{table.name}: the columns have {min(rows)} to {max(rows)} rows, expected the same "
            "number [TD2007]"
        )
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow([name for name, _ in table.columns])
        writer.writerows(zip(*texts))
    return path


def _number(value: float) -> Any:
    """The value in a csv file: "" for NaN."""
    return "" if value != value else value
