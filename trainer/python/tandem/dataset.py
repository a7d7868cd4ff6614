"""The training samples of a job's data, for loops in Python. Also `tandem.reader.Dataset`."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy.typing

from . import _core
from .errors import InvalidArgumentError
from .program import Variable, data

__all__ = ["Batch", "Dataset"]

Batch = Dict[str, numpy.typing.NDArray[Any]]


class Dataset:
    """The training samples of a job's data (`data { ... }`, docs/reference/job-file.md).

        data = tandem.reader.Dataset('format: "mnist" dir: "/usr/share/datasets/fashion-mnist"')
        for feed in data.batches(128, epochs=2):
            exe.run(feed=feed)

    Thread-safe.

    Args:
        text: the fields of `data`.
        directory: the base of relative paths; "": the working directory.

    Raises:
        InvalidArgumentError: a field is wrong. The message has each line with an error.
        FileMissingError, DataLossError: a file is missing or damaged.
    """

    def __init__(self, text: str, directory: str = "") -> None:
        self._core = _core.Dataset(text, directory)

    @classmethod
    def _of(cls, core: Optional[_core.Dataset]) -> Optional[Dataset]:
        if core is None:
            return None
        part = Dataset.__new__(Dataset)
        part._core = core
        return part

    @property
    def validation(self) -> Optional[Dataset]:
        """The validation samples of a split; None: there are none, or evaluations use them."""
        return self._of(self._core.part("validation"))

    @property
    def test(self) -> Optional[Dataset]:
        """The samples that evaluations use; None: the data have none."""
        return self._of(self._core.part("test"))

    @property
    def columns(self) -> List[str]:
        """A line for each column of a table, or for each class of a directory of images."""
        return self._core.columns

    @property
    def classes(self) -> List[str]:
        """The names of the classes of a directory of images, by label; otherwise []."""
        return self._core.classes

    def __len__(self) -> int:
        return self._core.size

    def fields(self) -> List[Tuple[str, str, List[int]]]:
        """Name, element type and dimensions of each array of a sample."""
        return [(name, dtype, dims) for name, dtype, dims, _ in self._core.fields()]

    def variables(self) -> List[Variable]:
        """Adds a data variable for each field to the current program."""
        return [data(name, [None, *dims], dtype) for name, dtype, dims in self.fields()]

    def batches(
        self,
        batch_size: int,
        epochs: int = 1,
        rank: int = 0,
        ranks: int = 1,
        seed: int = 1,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> Iterator[Batch]:
        """Yields the batches of a rank in the order of a job with the same settings.

        Args:
            batch_size: samples of a step on all ranks. Shares differ by at most one sample.
            epochs: passes over the data.
            rank, ranks: the share of each batch.
            drop_last: leaves out the samples that do not fill a batch; False: the first samples
                of the epoch fill the last batch.

        Raises:
            InvalidArgumentError: a rank would have no sample in a batch, or `rank` is not below
                `ranks`.
        """
        if not 0 <= rank < ranks <= batch_size:
            raise InvalidArgumentError(
                f"batches: got rank {rank} of {ranks} and batch_size {batch_size}, expected "
                "0 <= rank < ranks <= batch_size [TD1104]"
            )
        sampler = _core.Sampler(len(self), batch_size, seed, shuffle, drop_last)
        begin, end = batch_size * rank // ranks, batch_size * (rank + 1) // ranks
        for epoch in range(epochs):
            for step in range(sampler.steps_per_epoch):
                yield self._core.batch(sampler.batch(epoch, step)[begin:end], epoch)

    def __repr__(self) -> str:
        return f"<tandem.reader.Dataset: {self._core.describe()}>"
