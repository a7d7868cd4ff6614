"""Warns about spinning OpenMP threads of PyTorch, which take processors from local servers."""

import os
import socket
import sys
import warnings

_warned = False


def _is_local(address):
    host = address.rsplit(":", 1)[0].strip("[]")
    return host in ("localhost", "::1", socket.gethostname()) or host.startswith("127.")


def _spins(environment):
    policy = environment.get("OMP_WAIT_POLICY", "").strip().lower()
    return policy != "passive" and environment.get("GOMP_SPINCOUNT") != "0"


def warn_of_spinning(addresses):
    """Warns once per process if PyTorch has several threads and a server runs on this host."""
    global _warned  # pylint: disable=global-statement
    torch = sys.modules.get("torch")
    if _warned or torch is None or not _spins(os.environ):
        return
    local = [address for address in addresses if _is_local(address)]
    threads = torch.get_num_threads() if hasattr(torch, "get_num_threads") else 1
    if threads < 2 or not local:
        return
    _warned = True
    warnings.warn(
        "%d OpenMP threads of torch wait in a busy loop, which slows pserver %s on this host "
        "[TD4027]; hint: start Python with OMP_WAIT_POLICY=passive" % (threads, local[0]),
        RuntimeWarning, stacklevel=4)  # the caller of push or push_pull
