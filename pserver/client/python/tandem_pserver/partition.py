"""Assigns elements of variables to servers, exactly as pserver/client/placement/partition.h does.

All trainers of a job compute the same placement, in C++ and in Python.
"""

import math
from typing import NamedTuple

import numpy

ROW_BUCKETS = 1024  # row buckets of a table (common/tables/row_buckets.h)


class Slice(NamedTuple):
    """Elements [offset, offset + numel) of a flattened variable."""
    variable: str
    offset: int
    numel: int
    server: int


Block = Slice  # former name, until 0.2


def _stable_hash(text):
    h = 14695981039346656037  # FNV-1a
    for byte in text.encode():
        h = ((h ^ byte) * 1099511628211) % 2**64
    return h


def _block_size(shape, servers, slice_var_up, min_block_size):
    numel = math.prod(shape)
    if not slice_var_up:
        return numel
    split = min(servers, max(1, numel // min_block_size))
    block = -(-numel // split)
    if len(shape) >= 2:
        row = math.prod(shape[1:])
        block = -(-block // row) * row
    return block


def _balance(sizes, servers):
    load = [0] * servers
    owner = [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owner[i] = load.index(min(load))
        load[owner[i]] += sizes[i]
    return owner


def partition(variables, servers, slice_var_up=True, min_block_size=8192,
              dispatcher="round_robin"):
    """Returns the blocks of `variables` ({name: shape}) in their order.

    dispatcher: "round_robin", "hash_name" or "size_balanced". Raises ValueError for no servers, a
    min_block_size below 1, and variables without elements.
    """
    if servers < 1:
        raise ValueError(f"the job has {servers} pservers, expected at least 1")
    if min_block_size < 1:
        raise ValueError(f"min_block_size is {min_block_size}, expected at least 1")
    pieces = []
    for name, shape in variables.items():
        numel = math.prod(shape)
        if numel < 1:
            raise ValueError(f"variable {name} has shape {tuple(shape)}, but needs at least one "
                             "element")
        size = _block_size(shape, servers, slice_var_up, min_block_size)
        pieces += [(name, at, min(size, numel - at)) for at in range(0, numel, size)]
    if dispatcher == "round_robin":
        owner = [i % servers for i in range(len(pieces))]
    elif dispatcher == "hash_name":
        owner = [(_stable_hash(f"{name}@{at}") >> 32) % servers for name, at, _ in pieces]
    elif dispatcher == "size_balanced":
        owner = _balance([numel for _, _, numel in pieces], servers)
    else:
        raise ValueError(f'unknown dispatcher "{dispatcher}", expected round_robin, hash_name or '
                         "size_balanced")
    return [Slice(*piece, server) for piece, server in zip(pieces, owner)]


def row_buckets(ids):
    """Returns the buckets of rows of a table as an int64 array."""
    products = numpy.asarray(ids).astype(numpy.uint64) * numpy.uint64(0x9e3779b97f4a7c15)
    return (products >> numpy.uint64(54)).astype(numpy.int64)


def first_bucket(server, servers):
    """Returns the first bucket of a server; for server `servers` it is ROW_BUCKETS."""
    return ROW_BUCKETS * server // servers
