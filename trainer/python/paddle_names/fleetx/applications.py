"""The models of FleetX."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator

import tandem
from tandem import fleet
from tandem.errors import FailedPreconditionError

__all__ = ["Resnet50"]


class _Model:
    """A model of the zoo in the default program.

    Attributes:
        main_prog, startup_prog: the programs of the model.
        loss: what training minimises.
    """

    def __init__(self, name: str, **args: Any) -> None:
        self.main_prog = tandem.default_main_program()
        self.startup_prog = tandem.default_startup_program()
        if self.main_prog.list_ops():
            raise FailedPreconditionError(
                "the default program has operators already, so the model cannot be built in it "
                "[TD1219]"
            )
        self.main_prog.core = tandem.models.build(name, **args).core
        self.loss = self.main_prog.loss

    def get_train_dataloader(
        self, local_path: str, batch_size: int = 32, epochs: int = 1
    ) -> Callable[[], Iterator[Dict[str, Any]]]:
        """Returns a function that yields the feeds of this worker.

        Args:
            local_path: a directory with data.pbtxt, the fields of `data { ... }` of a job.
            batch_size: samples of a step on this worker.
        """
        with open(os.path.join(local_path, "data.pbtxt"), encoding="utf-8") as file:
            data = tandem.reader.Dataset(file.read(), local_path)
        workers = fleet.worker_num()
        return lambda: data.batches(
            batch_size * workers, epochs, fleet.worker_index(), workers, self.main_prog.random_seed
        )


class Resnet50(_Model):
    """ResNet-50 (He et al., CVPR 2016) for the 1000 classes of ImageNet."""

    def __init__(self, **args: Any) -> None:
        super().__init__("resnet50", **{"classes": 1000, **args})
