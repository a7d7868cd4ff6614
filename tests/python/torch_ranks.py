"""What one rank of tests/python/torch_backend_test.py does.

usage: torch_ranks.py NAME    with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment

Each function below is the program of a rank. It prints what the test compares."""

import datetime
import hashlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import tandem.torch  # pylint: disable=unused-import

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Gloo has no reductions of bf16; 16-bit integers are in neither's table of fast types.
TYPES = (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.int8,
         torch.uint8)


def join(seconds=60):
    dist.init_process_group("tandem", timeout=datetime.timedelta(seconds=seconds))


def values(shape, dtype, seed):
    """Small numbers, so that sums of every type are exact and gloo has the same bits."""
    random = torch.Generator().manual_seed(1000 * seed + RANK)
    return torch.randint(1, 4, shape, generator=random).to(dtype)


def same(name, mine, theirs):
    for k, (a, b) in enumerate(zip(mine, theirs)):
        if not torch.equal(a, b):
            sys.exit(f"rank {RANK}: {name}: tensor {k} is {a}, gloo has {b}")
    print(f"{name}: equal")


def both(gloo, name, call):
    """Runs a collective on both backends and compares the results."""
    same(name, call(None), call(gloo))


def collectives():
    join()
    gloo = dist.new_group(backend="gloo")
    if dist.get_backend() != "tandem" or dist.get_world_size() != SIZE:
        sys.exit("the default group is not of tandem")
    for dtype in TYPES:
        for op in ("SUM", "MAX", "MIN", "PRODUCT"):
            def reduce(group, to=None, dtype=dtype, op=op):
                tensor = values((5, 3), dtype, 1)
                kind = getattr(dist.ReduceOp, op)
                if to is None:
                    dist.all_reduce(tensor, kind, group=group)
                else:
                    dist.reduce(tensor, to, kind, group=group)
                return [tensor] if to in (None, RANK) else []
            both(gloo, f"all_reduce {dtype} {op}", reduce)
            both(gloo, f"reduce {dtype} {op}", lambda group: reduce(group, SIZE - 1))

        def broadcast(group, dtype=dtype):
            tensor = values((4,), dtype, 2)
            dist.broadcast(tensor, 1, group=group)
            return [tensor]

        def all_gather(group, dtype=dtype):
            out = [torch.zeros(2, 3, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(out, values((2, 3), dtype, 3), group=group)
            return out

        def gather(group, dtype=dtype):
            out = [torch.zeros(2, 3, dtype=dtype) for _ in range(SIZE)] if RANK == 1 else None
            dist.gather(values((2, 3), dtype, 4), out, dst=1, group=group)
            return out or []

        def scatter(group, dtype=dtype):
            out = torch.zeros(2, 3, dtype=dtype)
            parts = [values((2, 3), dtype, 5 + k) for k in range(SIZE)] if RANK == 0 else None
            dist.scatter(out, parts, src=0, group=group)
            return [out]

        for call in (broadcast, all_gather, gather, scatter):
            both(gloo, f"{call.__name__} {dtype}", call)
    for dtype in (torch.int32, torch.int64, torch.uint8):
        for op in ("BAND", "BOR", "BXOR"):
            def bits(group, dtype=dtype, op=op):
                tensor = values((7,), dtype, 6)
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op), group=group)
                return [tensor]
            both(gloo, f"all_reduce {dtype} {op}", bits)
    views(gloo)
    without_gloo()
    objects()
    dist.destroy_process_group()


def views(gloo):
    """Tensors that are not contiguous, empty or without dimensions, and a large tensor."""
    def transposed(group):
        tensor = values((6, 4), torch.float32, 7).t()
        dist.all_reduce(tensor, group=group)
        dist.broadcast(tensor[1:, ::2], 0, group=group)
        return [tensor]

    def scalar(group):
        tensor = values((), torch.float32, 8)
        dist.all_reduce(tensor, group=group)
        return [tensor]

    def large(group):
        tensor = values((1 << 20,), torch.float32, 9)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        work.wait()
        return [tensor]

    for call in (transposed, scalar, large):
        both(gloo, call.__name__, call)
    empty = torch.empty(0)
    dist.all_reduce(empty)
    dist.barrier()
    print("empty: equal")


def without_gloo():
    """Collectives that gloo lacks, compared with all_gather."""
    mine = values((SIZE, 3), torch.float32, 10)
    everyone = [torch.empty_like(mine) for _ in range(SIZE)]
    dist.all_gather(everyone, mine)
    total = sum(everyone)
    out = torch.empty(3)
    dist.reduce_scatter(out, list(mine))
    same("reduce_scatter", [out], [total[RANK]])
    wide = torch.empty(3, dtype=torch.float64)
    dist.reduce_scatter(wide, list(mine.double()))
    same("reduce_scatter f64", [wide], [total[RANK].double()])
    parts = [values((k + 1,), torch.float32, 11) for k in range(SIZE)]
    out = torch.empty(RANK + 1)
    dist.reduce_scatter(out, parts)
    reference = torch.empty(SIZE, sum(range(SIZE + 1)))
    dist._all_gather_base(reference, torch.cat(parts))  # pylint: disable=protected-access
    begin = sum(range(RANK + 1))
    same("reduce_scatter of parts", [out], [reference.sum(0)[begin:begin + RANK + 1]])
    flat = torch.empty(3)
    dist._reduce_scatter_base(flat, mine)  # pylint: disable=protected-access
    same("_reduce_scatter_base", [flat], [total[RANK]])
    out = torch.empty_like(mine)
    dist.all_to_all_single(out, mine)
    same("all_to_all_single", list(out), [other[RANK] for other in everyone])
    outs = list(torch.empty_like(mine))
    dist.all_to_all(outs, list(mine))
    same("all_to_all", outs, [other[RANK] for other in everyone])
    # Rank a sends (a + b) % 3 rows to rank b.
    sizes = [(RANK + peer) % 3 for peer in range(SIZE)]
    rows = torch.arange(sum(sizes), dtype=torch.float32) + 100 * RANK
    out = torch.empty(sum(sizes))
    dist.all_to_all_single(out, rows, sizes, sizes)
    expected = []
    for peer in range(SIZE):
        begin = sum((peer + k) % 3 for k in range(RANK))
        expected += [100.0 * peer + begin + k for k in range((peer + RANK) % 3)]
    same("all_to_all_single of parts", [out], [torch.tensor(expected)])
    mean = torch.full((2,), float(RANK))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    same("mean", [mean], [torch.full((2,), (SIZE - 1) / 2)])
    half = torch.full((3,), 0.5, dtype=torch.bfloat16)
    dist.all_reduce(half)
    same("bf16", [half], [torch.full((3,), SIZE / 2, dtype=torch.bfloat16)])
    several = [torch.ones(2), torch.ones(3, 2)]
    dist.all_reduce_coalesced(several)
    same("all_reduce_coalesced", several, [torch.full((2,), SIZE), torch.full((3, 2), SIZE)])


def objects():
    """Collectives of Python objects, and groups of some ranks."""
    out = [None] * SIZE
    dist.all_gather_object(out, {"rank": RANK})
    assert out == [{"rank": rank} for rank in range(SIZE)], out
    pairs = [dist.new_group([0, 1]), dist.new_group([1, SIZE - 1])]
    for members, group in zip(([0, 1], [1, SIZE - 1]), pairs):
        if RANK in members:
            tensor = torch.tensor([float(RANK)])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == sum(members), tensor
    print("objects and groups: equal")


def messages():
    """Both ranks of each pair send a large tensor before they receive, with two tags in different
    order."""
    join()
    works, received = [], {}
    for peer in range(SIZE):
        if peer == RANK:
            continue
        for tag in (3, 4):
            works.append(dist.isend(torch.full((1 << 18,), 10.0 * RANK + tag), peer, tag=tag))
        for tag in (4, 3):
            received[peer, tag] = torch.empty(1 << 18)
            works.append(dist.irecv(received[peer, tag], peer, tag=tag))
    for work in works:
        work.wait()
    for (peer, tag), tensor in received.items():
        assert torch.equal(tensor, torch.full((1 << 18,), 10.0 * peer + tag)), (peer, tag)
    tensor = torch.zeros(2)
    if RANK == 0:
        dist.send(torch.ones(2), 1)
    elif RANK == 1:
        dist.recv(tensor, 0)
        assert tensor.sum() == 2
    print("messages: equal")


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(20, 600), torch.nn.ReLU(), torch.nn.Linear(600, 3))


def ddp():
    """Four shards of each batch, on 1, 2 or 4 ranks. A rank with several shards adds their
    gradients as pairs, as the ranks do."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    join()
    net = torch.nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    shards = 4 // SIZE
    for step in range(10):
        random = torch.Generator().manual_seed(step)
        x = torch.randn(32, 20, generator=random)
        y = torch.randint(0, 3, (32,), generator=random)

        def gradients(begin, count):
            """Leaves the sum of the gradients of `count` shards in the model."""
            if count == 1:
                loss = torch.nn.functional.cross_entropy(
                    net(x[8 * begin:8 * begin + 8]), y[8 * begin:8 * begin + 8])
                (loss / shards).backward()
                return
            with net.no_sync():
                gradients(begin, count // 2)
            first = [p.grad.clone() for p in net.parameters()]
            optimizer.zero_grad()
            with net.no_sync():
                gradients(begin + count // 2, count // 2)
            for p, a in zip(net.parameters(), first):
                p.grad = a + p.grad

        optimizer.zero_grad()
        gradients(RANK * shards, shards)
        if shards > 1:  # the gradients were computed without a sum over the ranks
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= SIZE
        optimizer.step()
    bits = b"".join(p.detach().numpy().tobytes() for p in net.parameters())
    print("sha256", hashlib.sha256(bits).hexdigest())


def fsdp():
    """Both forms of FSDP and a plain training with the same batch have the same losses."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    join()
    x = torch.randn(8, 20, generator=torch.Generator().manual_seed(1))

    def losses(net):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        found = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    sharded = model()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (SIZE,)))
    whole = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    plain = torch.tensor(losses(model()))
    for net in (sharded, whole):
        torch.testing.assert_close(torch.tensor(losses(net)), plain, rtol=1e-5, atol=1e-6)
    print("fsdp: equal")


def killed():
    """Rank 1 dies in its third step; the others print the error and the seconds until it."""
    join()
    tensor = torch.ones(1000)
    for step in range(5):
        if RANK == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        try:
            dist.all_reduce(tensor)
        except Exception as error:  # pylint: disable=broad-except
            print(f"error after {time.monotonic() - begin:.1f} s: {type(error).__name__}: {error}")
            return
    print("no error")


def stopped():
    """Rank 1 does nothing in its third step; the deadline of the group is 3 s."""
    join()
    dist.barrier()
    group = dist.new_group(timeout=datetime.timedelta(seconds=3))
    tensor = torch.ones(1000)
    for step in range(3):
        if RANK == 1 and step == 2:
            time.sleep(8)
            return
        begin = time.monotonic()
        try:
            dist.all_reduce(tensor, group=group)
        except Exception as error:  # pylint: disable=broad-except
            print(f"error after {time.monotonic() - begin:.1f} s: {type(error).__name__}: {error}")
            return
    print("no error")


def timed():
    """Operations with a timeout of their own, in a group whose timeout is a minute. Rank 1 makes no
    call. Each attempt has a group, because a failed operation ends the communicator of its group."""
    join()
    options = dist.BarrierOptions()
    options.timeout = datetime.timedelta(seconds=1.5)

    def set_timeout(group):
        group.set_timeout(datetime.timedelta(seconds=1.5))
        return group.barrier()

    for name, call in (("options", lambda group: group.barrier(options)), ("set", set_timeout),
                       ("monitored", None)):
        group = dist.new_group()
        if call is None:
            for every in (False, True):
                group.monitored_barrier(datetime.timedelta(seconds=20), every)
        begin = time.monotonic()
        try:
            if RANK != 1 and call is not None:
                call(group).wait()
            elif RANK != 1:
                group.monitored_barrier(datetime.timedelta(seconds=1.5))
            print(f"{name}: no error")
        except (TimeoutError, RuntimeError) as error:
            print(f"{name}: {type(error).__name__} after {time.monotonic() - begin:.1f} s: {error}")
        dist.barrier()


def killed_in_ddp():
    """Rank 1 dies in a backward pass, so that the error comes through the C++ code of PyTorch."""
    join()
    net = torch.nn.parallel.DistributedDataParallel(model())
    for step in range(4):
        loss = net(torch.ones(4, 20)).sum()
        if RANK == 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            loss.backward()
        except Exception as error:  # pylint: disable=broad-except
            print(f"error: {type(error).__name__}: {error}")
            return
    print("no error")


def refused():
    """Calls that are wrong on one rank alone or on all; each prints its error."""
    join()

    def attempt(name, call):
        try:
            call()
            print(f"{name}: no error")
        except Exception as error:  # pylint: disable=broad-except
            print(f"{name}: {type(error).__name__}: {error}")

    attempt("sparse", lambda: dist.all_reduce(torch.ones(3).to_sparse()))
    attempt("shape", lambda: dist.all_gather([torch.empty(2), torch.empty(3)], torch.ones(2)))
    attempt("ranks", lambda: dist.all_gather([torch.empty(2)], torch.ones(2)))
    attempt("split", lambda: dist.all_to_all_single(torch.ones(5), torch.ones(5)))
    attempt("any", lambda: dist.recv(torch.empty(2)))
    attempt("differs", lambda: dist.all_reduce(torch.ones(2 + RANK)))


def leaves():
    """Rank 0 ends before rank 1 receives its second message."""
    join()
    tensor = torch.zeros(2)
    for i in range(2):
        if RANK == 0:
            dist.send(torch.full((2,), 1.0 + i), 1)
            continue
        time.sleep(i)
        dist.recv(tensor, 0)
        assert tensor.sum() == 2 + 2 * i
    print("leaves: received")


def late():
    """The program ends without destroy_process_group, while an operation of it is running."""
    join(30)
    works = [dist.all_reduce(torch.ones(10), async_op=True)]
    works[0].wait()
    if RANK == 0:
        works.append(dist.all_reduce(torch.ones(10), async_op=True))
        works[1].get_future()
    print("the end")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
