"""FleetX's names: models of the zoo with their data, for scripts of Fleet's guide."""

import argparse

from . import applications, utils

__all__ = ["applications", "parse_train_configs", "utils"]


def parse_train_configs() -> argparse.Namespace:
    """Returns the arguments of a training script: lr, num_epochs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--num_epochs", type=int, default=1)
    return parser.parse_known_args()[0]
