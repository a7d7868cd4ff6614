"""Reads and writes the safetensors files of Tandem with numpy alone."""

import json
import struct
import sys

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

DTYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


def read(path):
    """Arrays by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = file.read()
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if entry["dtype"] == "BF16":  # numpy has none: the upper half of an f32
            bits = np.frombuffer(body[begin:end], dtype=np.uint16).astype(np.uint32) << 16
            arrays[name] = bits.view(np.float32).reshape(entry["shape"])
            continue
        dtype = DTYPES.get(entry["dtype"])
        if dtype is None:
            continue
        arrays[name] = np.frombuffer(body[begin:end], dtype=dtype).reshape(entry["shape"]).copy()
    return arrays


def write(path, arrays):
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    header, at, body = {}, 0, []
    for name, array in sorted(arrays.items()):
        body.append(np.ascontiguousarray(array).tobytes())
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [at, at + len(body[-1])]}
        at += len(body[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(body))
