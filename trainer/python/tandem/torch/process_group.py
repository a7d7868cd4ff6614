"""The backend `tandem` of `torch.distributed`: collectives of CPU tensors over Tandem's transport.

    import torch.distributed, tandem.torch
    torch.distributed.init_process_group("tandem")

Ranks on one host exchange data through shared memory, other ranks over TCP. All ranks get the same
bits. With `torch.use_deterministic_algorithms(True)` before `init_process_group`, sums also use the
order of a binary tree over the ranks, at every size: the bits are then those of a parameter server
and of one process that adds the parts of a batch. A rank that dies, stops or makes a different call
is named in the exception of all other ranks. The timeout of the group is the deadline of each
operation, unless the options of a call have a timeout.

Not possible: CUDA and sparse tensors, `recv` from any rank.
"""

from __future__ import annotations

import atexit
import datetime
import inspect
import threading
import weakref
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from ..errors import InvalidArgumentError, UnimplementedError
from .group_barrier import MonitoredBarrier
from .group_channels import Channels
from .group_connect import connect, name_master
from .group_tensors import (
    REDUCED,
    bytes_of,
    check,
    check_all,
    check_parts,
    copy_to,
    nothing,
    only,
    operation,
    reduce_as_tree,
    reduction,
    split,
)
from .group_work import Thread, Work, seconds

__all__ = ["ProcessGroup", "register"]

_KEPT_MAX = 64  # ended works that C++ code of PyTorch may still use
# Starts an operation with a timeout in seconds, or without one (None). Returns what runs.
_Start = Callable[[Optional[float]], Any]
# Operations to start, and a function to call at their end.
_Step = Tuple[List[_Start], Callable[[], None]]


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group of `torch.distributed` over a communicator of Tandem.

    Its methods are those of PyTorch's process groups: each starts a collective and returns its
    work. A tensor must not be used until the work has ended. All ranks make the same collectives in
    the same order. Messages (`send`, `recv`) of two ranks with one tag have their own order."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        self._store = store
        self._rank, self._size = rank, size
        self._timeout = timeout.total_seconds()
        self._limit: Optional[float] = None  # set_timeout; None: that of the communicator
        self._channels = Channels(store, rank, size, self._timeout)
        self._later: Optional[Thread] = None
        self._sequence = 0
        self._group_name = self._group_desc = ""
        self._lock = threading.Lock()
        self._works: Deque[Work] = deque()
        self._ended: Deque[Work] = deque(maxlen=_KEPT_MAX)
        self._barrier = MonitoredBarrier(store, rank, size)
        self._communicator = connect(store, "tandem", rank, size, self._timeout)
        atexit.register(_close_at_exit, weakref.ref(self))

    # Names and numbers that PyTorch asks for.
    def getBackendName(self) -> str:
        return "tandem"

    def name(self) -> str:
        return "tandem"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def _get_backend_name(self) -> str:
        return "tandem"

    # Newer versions of PyTorch give a group a name, which DeviceMesh and fully_shard ask for.
    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, text: str) -> None:
        self._group_desc = text

    def getGroupDesc(self) -> str:
        return self._group_desc

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    # Newer versions of PyTorch ask a group for its devices and for the backend of a device.
    @property
    def _device_types(self) -> List[Any]:
        """PyTorch's recorder of calls attaches to a new group that has devices, but cannot attach to
        a group in Python. So a group has its device after PyTorch has registered the group."""
        known = getattr(dist.distributed_c10d, "_world", None)
        return [torch.device("cpu")] if self in getattr(known, "pg_map", {}) else []

    def _get_backend(self, device: Any) -> "ProcessGroup":
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"the backend tandem has no collectives on device {device} [TD1109]")
        return self

    get_backend = _get_backend

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Sets the deadline of later operations, counted from their call."""
        self._limit = seconds(timeout)

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def close(self, why: str = "the process group was closed") -> None:
        """Ends all operations of this rank.

        Other ranks still receive what operations that have ended here have sent. Those that wait for
        further operations of this rank get an error.
        """
        self._communicator.close(why)
        self._channels.close(why)
        if self._later is not None:
            self._later.stop()

    shutdown = close
    abort = close

    def _run_later(self, call: Callable[[], None]) -> None:
        """Calls `call` on the thread that completes futures."""
        with self._lock:
            if self._later is None:
                self._later = Thread("tandem futures")
            self._later.submit(call)

    # Steps: the operations of a collective, and the function that finishes its results.
    def _call(self, op: str, **arguments: Any) -> _Start:
        def start(timeout: Optional[float]) -> Any:
            self._sequence += 1
            return self._communicator.start(op, timeout=timeout, **arguments)

        return start

    def _work(self, results: Sequence[Any], *steps: _Step, opts: Any = None) -> Work:
        """Starts the operations. Returns a work, and keeps it until its end, because its operations
        use its memory. `opts`: options of PyTorch, which may have a timeout."""
        timeout = seconds(getattr(opts, "timeout", None)) or self._limit
        running = [start(timeout) for step in steps for start in step[0]]

        def finish() -> None:
            for _, part in steps:
                part()

        limit = self._timeout if timeout is None else timeout
        work = Work(self._run_later, running, list(results), finish, limit)
        with self._lock:
            while self._works and self._works[0].is_completed():
                self._ended.append(self._works.popleft())
            self._works.append(work)
        return work

    def _gather_all(self, outputs: Sequence[Any], tensor: Any) -> _Step:
        """Output r becomes the tensor of rank r."""
        check_all(outputs, tensor, self._size, "allgather")
        own = tensor.detach().contiguous()
        flat = torch.empty((self._size, own.numel()), dtype=own.dtype)

        def finish() -> None:
            for output, part in zip(outputs, flat):
                output.detach().copy_(part.view(output.shape))

        return [self._call("AllGather", input=bytes_of(own), output=bytes_of(flat))], finish

    def _reduce(self, tensor: Any, op: Any, root: Optional[int]) -> _Step:
        """Reduces `tensor` into itself, on rank `root` or on all ranks (None)."""
        name, function, mean = reduction(op)
        own = check(tensor).detach().contiguous()
        wanted = root in (None, self._rank)
        if name and own.dtype in REDUCED:
            result = own if wanted else torch.empty_like(own)
            running = self._call(
                "AllReduce" if root is None else "Reduce",
                input=bytes_of(own),
                output=bytes_of(result),
                dtype=REDUCED[own.dtype],
                reduce=name,
                root=root or 0,
            )
            finish = copy_to(result, tensor, self._size if mean else 1)
            return [running], finish if wanted else nothing
        parts = [torch.empty_like(own) for _ in range(self._size)]
        running_all, gathered = self._gather_all(parts, own)

        def finish_parts() -> None:
            gathered()
            if wanted:
                copy_to(reduce_as_tree(parts, function), tensor, self._size if mean else 1)()

        return running_all, finish_parts

    def _reduce_scatter(self, output: Any, flat: Any, op: Any) -> _Step:
        """Output becomes part `rank` of the reduction of `flat`, which has a part for each rank."""
        name, function, mean = reduction(op)
        if name and flat.dtype in REDUCED:
            result = torch.empty(output.numel(), dtype=flat.dtype)
            running = self._call(
                "ReduceScatter",
                input=bytes_of(flat),
                output=bytes_of(result),
                dtype=REDUCED[flat.dtype],
                reduce=name,
            )
            return [running], copy_to(result, output, self._size if mean else 1)
        parts = torch.empty_like(flat).view(self._size, -1)
        running = self._call("AllToAll", input=bytes_of(flat), output=bytes_of(parts))

        def finish() -> None:
            copy_to(reduce_as_tree(list(parts), function), output, self._size if mean else 1)()

        return [running], finish

    def _send(self, tensor: Any, peer: int) -> Any:
        return self._call("SendRecv", input=bytes_of(tensor.detach().contiguous()), to=peer)

    def _receive(self, output: Any, peer: int) -> _Step:
        own = output.detach().contiguous()
        return [self._call("SendRecv", output=bytes_of(own), from_=peer)], copy_to(own, output)

    def _exchange(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> List[_Step]:
        """Sends input r to rank r, and receives output r from rank r. The sizes may differ. A rank
        exchanges with the others in ascending order, and the lower rank of a pair sends first, so
        that no ranks wait for each other in a circle."""
        steps: List[_Step] = [([], copy_to(inputs[self._rank], outputs[self._rank]))]
        for peer in range(self._size):
            for sends in (self._rank < peer, self._rank > peer):
                if peer == self._rank:
                    continue
                if sends and inputs[peer].numel():
                    steps.append(([self._send(inputs[peer], peer)], nothing))
                elif not sends and outputs[peer].numel():
                    steps.append(self._receive(outputs[peer], peer))
        return steps

    # The collectives, with the names and arguments of PyTorch's process groups.
    def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Work:
        return self.allreduce_coalesced([only(tensors)], opts)

    def allreduce_coalesced(self, tensors: Sequence[Any], opts: Any = None) -> Work:
        op = operation(opts)
        steps = [self._reduce(tensor, op, None) for tensor in tensors]
        return self._work(tensors, *steps, opts=opts)

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Work:
        step = self._reduce(only(tensors), operation(opts), opts.rootRank)
        return self._work(tensors, step, opts=opts)

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Work:
        tensor = only(tensors)
        own = tensor.detach().contiguous()
        memory = bytes_of(own)
        running = self._call("Broadcast", input=memory, output=memory, root=opts.rootRank)
        return self._work(tensors, ([running], copy_to(own, tensor)), opts=opts)

    def allgather(
        self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None
    ) -> Work:
        if len(outputs) != 1:
            raise InvalidArgumentError(f"allgather has {len(outputs)} lists of outputs, expected 1")
        return self._work(outputs[0], self._gather_all(outputs[0], only(inputs)), opts=opts)

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None
    ) -> Work:
        """`outputs[r][k]` becomes `inputs[k]` of rank r."""
        results = [tensor for outputs_of_rank in outputs for tensor in outputs_of_rank]
        steps = [
            self._gather_all([outputs_of_rank[k] for outputs_of_rank in outputs], tensor)
            for k, tensor in enumerate(inputs)
        ]
        return self._work(results, *steps, opts=opts)

    def _gather_whole(self, output: Any, tensor: Any) -> _Step:
        check_parts(output, tensor, self._size, "allgather")
        result = output.detach().contiguous()
        own = tensor.detach().contiguous()
        running = self._call("AllGather", input=bytes_of(own), output=bytes_of(result))
        return [running], copy_to(result, output)

    def _allgather_base(self, output: Any, tensor: Any, opts: Any = None) -> Work:
        return self._work([output], self._gather_whole(output, tensor), opts=opts)

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None
    ) -> Work:
        steps = [self._gather_whole(out, tensor) for out, tensor in zip(outputs, inputs)]
        return self._work(outputs, *steps, opts=opts)

    def gather(self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Work:
        tensor = only(inputs)
        if self._rank != opts.rootRank:
            return self._work([], ([self._send(tensor, opts.rootRank)], nothing), opts=opts)
        check_all(outputs[0], tensor, self._size, "gather")
        steps = [
            self._receive(output, peer)
            for peer, output in enumerate(outputs[0])
            if peer != self._rank
        ]
        own: _Step = ([], copy_to(tensor, outputs[0][self._rank]))
        return self._work(outputs[0], own, *steps, opts=opts)

    def gather_single(self, output: Any, tensor: Any, opts: Any) -> Work:
        if self._rank != opts.rootRank:
            return self.gather([], [tensor], opts)
        check_parts(output, tensor, self._size, "gather")
        return self.gather([list(output.detach().chunk(self._size))], [tensor], opts)

    def scatter(self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any) -> Work:
        output = only(outputs)
        if self._rank != opts.rootRank:
            return self._work(outputs, self._receive(output, opts.rootRank), opts=opts)
        check_all(inputs[0], output, self._size, "scatter")
        running = [
            self._send(tensor, peer)
            for peer, tensor in enumerate(inputs[0])
            if peer != self._rank
        ]
        step = (running, copy_to(inputs[0][self._rank], output))
        return self._work(outputs, step, opts=opts)

    def reduce_scatter(
        self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any = None
    ) -> Work:
        output = only(outputs)
        if len(inputs) != 1 or len(inputs[0]) != self._size:
            raise InvalidArgumentError(
                f"reduce_scatter: expected one list of {self._size} tensors of this rank"
            )
        parts = [check(tensor).detach() for tensor in inputs[0]]
        if all(part.numel() == output.numel() for part in parts):
            flat = torch.cat([part.reshape(-1) for part in parts])
            step = self._reduce_scatter(output, flat, operation(opts))
            return self._work(outputs, step, opts=opts)
        # The parts differ in size: each is reduced on its rank.
        parts = [part.clone() for part in parts]
        steps = [self._reduce(part, operation(opts), peer) for peer, part in enumerate(parts)]
        return self._work(outputs, *steps, ([], copy_to(parts[self._rank], output)), opts=opts)

    def _reduce_scatter_base(self, output: Any, tensor: Any, opts: Any = None) -> Work:
        return self.reduce_scatter_tensor_coalesced([output], [tensor], opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None
    ) -> Work:
        steps = []
        for output, tensor in zip(outputs, inputs):
            check_parts(tensor, output, self._size, "reduce_scatter")
            flat = tensor.detach().contiguous()
            steps.append(self._reduce_scatter(output, flat, operation(opts)))
        return self._work(outputs, *steps, opts=opts)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any = None) -> Work:
        if len(outputs) != self._size or len(inputs) != self._size:
            raise InvalidArgumentError(
                f"alltoall has {len(inputs)} inputs and {len(outputs)} outputs, expected one for "
                f"each of the {self._size} ranks"
            )
        for tensor in [*outputs, *inputs]:
            check(tensor)
        return self._work(outputs, *self._exchange(outputs, inputs), opts=opts)

    def alltoall_base(
        self,
        output: Any,
        tensor: Any,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: Any = None,
    ) -> Work:
        check(output)
        check(tensor)
        if output_sizes or input_sizes:
            outputs = split(output, output_sizes, self._size)
            inputs = split(tensor, input_sizes, self._size)
            return self._work([output], *self._exchange(outputs, inputs), opts=opts)
        if output.numel() != tensor.numel() or tensor.numel() % self._size != 0:
            raise InvalidArgumentError(
                f"alltoall: input {list(tensor.shape)} and output {list(output.shape)}, expected "
                f"equal sizes that {self._size} ranks can divide"
            )
        result = output.detach().contiguous()
        own = tensor.detach().contiguous()
        running = self._call("AllToAll", input=bytes_of(own), output=bytes_of(result))
        return self._work([output], ([running], copy_to(result, output)), opts=opts)

    def barrier(self, opts: Any = None) -> Work:
        return self._work([], ([self._call("Barrier")], nothing), opts=opts)

    def monitored_barrier(
        self, timeout: Optional[datetime.timedelta] = None, wait_all_ranks: bool = False
    ) -> None:
        """Waits until all ranks have called it. The error names the ranks that have not."""
        limit = (self._limit or self._timeout) if timeout is None else timeout.total_seconds()
        self._barrier.wait(limit, wait_all_ranks)

    # The names of these collectives in newer versions of PyTorch.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    all_to_all_single = alltoall_base
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # Messages between two ranks.
    def send(self, tensors: Sequence[Any], to: int, tag: int = 0) -> Work:
        own = only(tensors).detach().contiguous()
        start = self._channels.message(self._rank, to, tag, input=bytes_of(own), to=1)
        return self._work(tensors, ([start], nothing))

    def recv(self, tensors: Sequence[Any], from_: int, tag: int = 0) -> Work:
        tensor = only(tensors)
        own = tensor.detach().contiguous()
        start = self._channels.message(from_, self._rank, tag, output=bytes_of(own), from_=0)
        return self._work(tensors, ([start], copy_to(own, tensor)))

    def recv_anysource(self, tensors: Sequence[Any], tag: int = 0) -> Work:
        raise UnimplementedError(
            "the backend tandem has no recv from any rank [TD1109]; hint: pass src to recv"
        )


def _close_at_exit(group: Any) -> None:
    """Ends the operations of a group that the program did not destroy."""
    if (alive := group()) is not None:
        alive.close("the program of this rank ended")


def _make(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> ProcessGroup:
    return ProcessGroup(store, rank, size, timeout)


def register() -> None:
    """Registers the backend. A second call has no effect."""
    if hasattr(dist.Backend, "TANDEM"):
        return
    name_master()
    more = {}
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:
        more["devices"] = ["cpu"]
    dist.Backend.register_backend("tandem", _make, **more)
