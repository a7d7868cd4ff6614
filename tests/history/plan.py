"""What a run tries: its settings, drawn by a seed, and which gradient identifies which push."""

import random

ROW_BUCKETS = 1024
HEIGHT = 1 << 40  # of the table `rows`
DIM = 8           # columns of `rows`: eight pushes share a row
FADING_HEIGHT, FADING_IDS = 1 << 20, 24
FADING_TTL, FADING_EVERY = 12, 4
LARGE_SIZES = (1, 7, 4096, 65536, 1 << 20)
FAULTS = ("kill", "kill_at_ack", "kill_at_ack", "kill_unheard", "kill_unheard", "stop", "restart",
          "cut", "hold_out", "hold_in", "delay", "full")


WORKLOADS = ("raw", "moves", "replayable", "standbys")


def draw(seed, mode=None, faults=None, workload="raw"):
    """The plan of `seed`: a dict that JSON can hold. `workload`: "raw" has the clients of
    clients.py, the others have those of product.py."""
    if workload != "raw":
        return draw_product(seed, mode, faults, workload)
    rng = random.Random(seed)
    mode_drawn = rng.choice(("a_sync", "a_sync", "sync"))
    mode = mode or mode_drawn
    sync = mode == "sync"
    chosen = rng.sample(FAULTS, 5)
    chosen = sorted(set(chosen if faults is None else faults))
    cold = 0 if "full" in chosen else rng.choice((0, 0, 1))  # a store of cold rows needs 512 MB
    return {
        "seed": seed, "mode": mode, "workload": "raw", "job": f"history-{seed}",
        "servers": rng.choice((1, 2, 2, 3)), "trainers": rng.choice((1, 2, 3)),
        "readers": 1, "slots": 6144 if sync else 4096,
        "large": rng.choice(LARGE_SIZES[:4] if sync else LARGE_SIZES),
        "durability": "logged",
        "flags": [f"--wal_sync={rng.choice(('none', 'interval', 'always'))}",
                  *rng.choice(((), (), ("--checkpoint_every_steps=17",),
                               ("--checkpoint_every_steps=100", "--checkpoint_deltas=3"))),
                  f"--threads={rng.choice((1, 2, 4))}",
                  f"--table_memory_mb={cold}"],
        "faults": chosen,
        "restores": not sync and rng.random() < 0.5,
        "snapshots": rng.random() < 0.5,
    }


def draw_product(seed, mode, faults, workload):
    """The plan of a workload with Tandem's own client. `servers` are virtual (product.py)."""
    rng = random.Random(f"{workload} {seed}")
    chosen = faults if faults is not None else rng.sample(
        ("kill", "kill_at_ack", "stop", "restart"), 3)
    flags = [f"--wal_sync={rng.choice(('none', 'interval', 'always'))}",
             f"--threads={rng.choice((1, 2, 4))}"]
    flags += rng.choice(((), ("--checkpoint_every_steps=17",)))
    if workload == "replayable":
        flags.append(f"--keep_pushes_mb={rng.choice((1, 64))}")
    servers = 3 if workload == "moves" else rng.choice((1, 2, 3))
    mode = mode or rng.choice(("a_sync", "a_sync", "sync"))
    return {"seed": seed, "mode": mode, "workload": workload, "job": f"history-{seed}",
            "servers": 2, "real_servers": min(servers, 2) if workload == "standbys" else servers,
            "standbys": rng.choice((1, 1, 2)),
            "trainers": rng.choice((1, 2, 3)), "readers": 0, "slots": 4096, "large": 1,
            "durability": "replayable" if workload == "replayable" else "logged", "flags": flags,
            "faults": ["lose"] if workload == "standbys" else sorted(set(chosen)),
            "restores": False, "snapshots": False}


def row_of(slot):
    """Id and column of the row in which push `slot` adds one."""
    return (slot // DIM * 0x9E3779B1 + 7) % HEIGHT, slot % DIM


def bucket_of(row):
    return (row * 0x9E3779B97F4A7C15 % 2**64) >> 54


def first_bucket(server, servers):
    return ROW_BUCKETS * server // servers


def owner_of(row, servers):
    """The server that owns a row, as clients place it at the start of a job."""
    bucket = bucket_of(row)
    return next(i for i in range(servers) if bucket < first_bucket(i + 1, servers))


def fading_ids(server, servers):
    """The rows of table `fading` that clients push to this server."""
    ids = [i for i in range(1, 4000) if owner_of(i, servers) == server]
    return ids[:FADING_IDS]
