"""PyTorch on Tandem.

- `Embedding`, `EmbeddingBag` and `Optimizer`: models whose tables, and if wanted all parameters, are
  on parameter servers (tables.py, table_optimizer.py).
- The backend `tandem` of `torch.distributed`, which this import registers (process_group.py).
- `from_torch`: a module as a program that Tandem trains (modules.py).
"""

from __future__ import annotations

from typing import Any

import torch

from .modules import Converted, from_torch

if torch.distributed.is_available():
    from . import process_group

    process_group.register()

__all__ = ["Converted", "Embedding", "EmbeddingBag", "Optimizer", "from_torch"]


def __getattr__(name: str) -> Any:
    if name in ("Embedding", "EmbeddingBag"):
        from . import tables

        return getattr(tables, name)
    if name == "Optimizer":
        from . import table_optimizer

        return table_optimizer.Optimizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
