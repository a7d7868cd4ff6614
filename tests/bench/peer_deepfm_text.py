"""The peer of deepfm_end_to_end: the same model in PyTorch with sparse embeddings, an epoch over the
same file with the same ids in number, read by pyarrow. Prints one JSON object: samples a second
{"from_text": ..., "from_arrays": ...}.

usage: peer_deepfm_text.py FILE RECORDS BATCH NUMBER_IDS CATEGORY_IDS THREADS
"""

import json
import sys
import time
import zlib

import numpy as np
import pyarrow as pa
import torch
from pyarrow import csv

from peer_torch import DeepFM

NUMBERS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]


def read(path, number_ids, category_ids):
    """(ids i64 [records, 39], labels f32 [records, 1])."""
    types = {"label": pa.float32(), **{name: pa.float32() for name in NUMBERS},
             **{name: pa.dictionary(pa.int32(), pa.string()) for name in CATEGORIES}}
    table = csv.read_csv(path, csv.ReadOptions(column_names=list(types)),
                         csv.ParseOptions(delimiter="\t", quote_char=False),
                         csv.ConvertOptions(column_types=types, check_utf8=False))
    table = table.unify_dictionaries().combine_chunks()
    columns, begin = [], 0
    for name in NUMBERS:
        x = table[name].fill_null(0).to_numpy()
        ids = np.where(x > 2, np.floor(np.square(np.log(np.maximum(x, 1)))), x)
        columns.append(np.clip(ids, 0, number_ids - 1).astype(np.int64) + begin)
        begin += number_ids
    for name in CATEGORIES:
        coded = table[name].chunk(0)
        values = np.array([zlib.crc32(v.encode()) % category_ids
                           for v in coded.dictionary.to_pylist()], dtype=np.int64)
        columns.append(values[coded.indices.to_numpy(zero_copy_only=False)] + begin)
        begin += category_ids
    return np.stack(columns, axis=1), table["label"].to_numpy().reshape(-1, 1)


def train(model, optimizer, ids, labels, batch):
    loss_of = torch.nn.BCEWithLogitsLoss()
    ids, labels = torch.from_numpy(ids), torch.from_numpy(np.array(labels))
    order = torch.randperm(len(ids))
    steps = len(ids) // batch
    for step in range(steps):
        rows = order[step * batch:(step + 1) * batch]
        optimizer.zero_grad()
        loss_of(model(ids[rows]), labels[rows]).backward()
        optimizer.step()
    return steps * batch


def main():
    path, records, batch, number_ids, category_ids, threads = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    model = DeepFM(13 * number_ids + 26 * category_ids, 16, 39, [400, 400, 400], sparse=True)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01, eps=1e-6)
    start = time.monotonic()
    ids, labels = read(path, number_ids, category_ids)
    assert len(ids) == records, len(ids)
    samples = train(model, optimizer, ids, labels, batch)
    from_text = samples / (time.monotonic() - start)
    start = time.monotonic()
    samples = train(model, optimizer, ids, labels, batch)
    print(json.dumps({"from_text": from_text,
                      "from_arrays": samples / (time.monotonic() - start)}))


if __name__ == "__main__":
    main()
