"""How the ranks of `tandem.torch.process_group` find each other through a store of PyTorch."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from typing import Any, Callable

import torch

from .. import _core
from ..errors import DeadlineExceededError, FailedPreconditionError
from .group_store import wait_for_keys


def _own_host() -> str:
    """Returns the address on which other ranks reach this host: TANDEM_LISTEN_HOST, or the address
    that reaches MASTER_ADDR, or the address of the host's name."""
    if given := os.environ.get("TANDEM_LISTEN_HOST"):
        return given
    master = os.environ.get("MASTER_ADDR")
    if not master:
        return socket.gethostbyname(socket.gethostname())
    family, _, _, _, address = socket.getaddrinfo(master, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # sends nothing
        return str(probe.getsockname()[0])


def connect(
    store: Any,
    key: str,
    rank: int,
    size: int,
    timeout: float,
    stopped: Callable[[], bool] = lambda: False,
) -> Any:
    """Connects `size` ranks. Rank 0 listens and announces its address in the store under `key`.

    `timeout`: time limit of this call in seconds, and of each operation of the communicator.
    `stopped`: if it returns True, this rank does not wait for the address any longer."""
    listen_fd = -1
    if rank == 0:
        host = _own_host()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.bind((host, 0))
            port = listener.getsockname()[1]
            listen_fd = listener.detach()
        announced = {
            "rendezvous": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
            "secret": secrets.token_hex(32),
            "tree_order": torch.are_deterministic_algorithms_enabled(),
        }
        store.set(key, json.dumps(announced))
        store.add(key + "/set", 1)
    else:
        if wait_for_keys(store, key, ["set"], time.monotonic() + timeout, stopped):
            if stopped():
                raise FailedPreconditionError(
                    "the process group was closed while this rank waited for rank 0 [TD1219]"
                )
            raise DeadlineExceededError(
                f"rank 0 of the process group did not announce its address within {timeout:.0f} s "
                "[TD3001]"
            )
        announced = json.loads(store.get(key))
    return _core.Communicator(
        rank=rank,
        size=size,
        secret=announced["secret"],
        rendezvous=announced["rendezvous"],
        listen_fd=listen_fd,
        timeout=timeout,
        tree_order=announced["tree_order"],
    )


def name_master() -> None:
    """In a rank of collective mode that tandemrun started, sets MASTER_ADDR and MASTER_PORT, with
    which `init_process_group` finds rank 0, unless they are set."""
    address, _, port = os.environ.get("TANDEM_RENDEZVOUS", "").rpartition(":")
    if port.isdecimal() and "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"] = address.strip("[]")
        os.environ.setdefault("MASTER_PORT", port)
