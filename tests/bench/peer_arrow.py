"""The peer of reader_text: pyarrow's CSV reader on the same files with one thread, in several
settings. Prints one JSON object: {format: {setting: MB/s}, format + "_sums": [records, labels]}.

usage: peer_arrow.py DIR SECONDS     DIR: what tandem-figures reader_text --export_dir wrote
"""

import json
import os
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

BLOCKS = {"1 MiB blocks": 1 << 20, "4 MiB blocks": 4 << 20, "16 MiB blocks": 16 << 20}


def criteo():
    names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
    types = {name: pa.string() if name[0] == "C" else pa.int32() for name in names}
    return "\t", names, types, lambda table: pc.sum(table["label"]).as_py()


def table():
    names = [f"n{i}" for i in range(1, 7)] + [f"c{i}" for i in range(1, 9)] + ["pay"]
    types = {name: pa.int32() if name[0] == "n" else pa.string() for name in names}
    return ",", None, types, lambda t: pc.sum(pc.equal(t["pay"], "high")).as_py()


def libsvm():
    # Values stay text: the reader does not support index:value.
    names = ["label"] + [f"f{i}" for i in range(39)]
    types = {name: pa.string() for name in names}
    types["label"] = pa.int8()
    return " ", names, types, lambda t: pc.sum(pc.equal(t["label"], 1)).as_py()


FORMATS = {"criteo": ("criteo.tsv", criteo), "csv": ("table.csv", table),
           "libsvm": ("sparse.libsvm", libsvm)}


def settings(delimiter, names, types):
    """{name: a function that reads a file into a table}."""
    def reader(block, convert):
        def read(path):
            return csv.read_csv(
                path, csv.ReadOptions(use_threads=False, block_size=block, column_names=names),
                csv.ParseOptions(delimiter=delimiter, quote_char=False, newlines_in_values=False),
                convert)
        return read

    out = {}
    for block_name, block in BLOCKS.items():
        given = csv.ConvertOptions(column_types=types, strings_can_be_null=False,
                                   check_utf8=False)
        out["types given, " + block_name] = reader(block, given)
    out["types inferred"] = reader(4 << 20, csv.ConvertOptions(check_utf8=False))
    return out


def speed(read, path, seconds):
    read(path)
    size, total = os.path.getsize(path), 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        read(path)
        total += size
    return total / (time.perf_counter() - start) / 1e6


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    out = {"version": pa.__version__}
    for name, (file, describe) in FORMATS.items():
        delimiter, names, types, labels = describe()
        path = os.path.join(folder, file)
        ways = settings(delimiter, names, types)
        out[name] = {setting: round(speed(read, path, seconds / len(ways)), 1)
                     for setting, read in ways.items()}
        whole = next(iter(ways.values()))(path)
        out[name + "_sums"] = [whole.num_rows, labels(whole)]
    print(json.dumps(out))


main()
