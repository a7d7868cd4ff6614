"""The client of a job's parameter servers: one object per trainer."""

import random
import time
from typing import NamedTuple

import numpy

from .calls import Calls, add_rows
from .errors import PserverError
from .messages import METHODS, NUMBER
from .partition import ROW_BUCKETS, first_bucket, partition
from .step_parts import StepParts
from .table import INIT_KINDS, Table
from .thread_advice import warn_of_spinning

MODES = {"sync": "UPDATE_MODE_SYNC", "a_sync": "UPDATE_MODE_A_SYNC"}
INCARNATION_RANGE = 1 << 24
INIT_BYTES_MAX = 64 << 20  # approximate maximum bytes of one InitParams message


class State(NamedTuple):
    initialised: bool  # values exist: from a checkpoint, or from an earlier init_or_fetch
    restored: bool     # the values are from a checkpoint of the servers
    version: int       # lowest version of all servers; in sync mode also the next step


class ServerStatus(NamedTuple):
    address: str
    configured: bool
    initialised: bool
    version: int
    checkpoint_version: int
    elements: int  # elements of dense variables
    rows: int      # rows of tables
    extended: int  # full rows among `rows`; with accessor=ctr, other rows are brief


def _check(name, array, shape, writable=False):
    if not isinstance(array, numpy.ndarray) or array.dtype != numpy.float32:
        kind = array.dtype if isinstance(array, numpy.ndarray) else type(array).__name__
        raise TypeError(f"{name} is {kind}, expected a numpy array of float32")
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has shape {array.shape}, but was configured as {tuple(shape)}")
    if writable and not (array.flags.c_contiguous and array.flags.writeable):
        raise ValueError(f"{name} must be C-contiguous and writable to receive values")


def _check_ids(name, ids, height):
    ids = numpy.asarray(ids)
    if ids.size and ids.dtype.kind not in "iu":  # [] is an array of float64
        raise TypeError(f"{name}: row ids are {ids.dtype}, expected whole numbers")
    ids = ids.astype(numpy.int64)
    if ids.ndim != 1:
        raise ValueError(f"{name}: row ids have shape {ids.shape}, expected one dimension")
    if ids.size and (ids.min() < 0 or ids.max() >= height):
        raise ValueError(f"{name}: row ids are from {ids.min()} to {ids.max()}, but the table has "
                         f"only {height} rows")
    return ids


def _check_addresses(servers):
    if isinstance(servers, str):
        raise TypeError(f'servers is "{servers}", expected a list: ["{servers}"]')
    if not servers:
        raise ValueError("servers is empty, expected at least one pserver address")
    for address in servers:
        for part in address.split("|"):
            host, _, port = part.rpartition(":")
            if not address.startswith("unix:/") and (not host or not port.isdecimal()):
                raise ValueError(f'pserver address is "{address}", expected "host:port" or '
                                 '"unix:/path"')
        if list(servers).count(address) > 1:
            raise ValueError(f"pserver {address} is given twice")


def _shape(name, shape):
    try:
        return tuple(shape)
    except TypeError:
        raise TypeError(f"variable {name} has shape {shape!r}, expected a tuple, ({shape!r},)"
                        ) from None


class Client:
    """Client of one trainer. Calls block. Not thread-safe.

    servers: "host:port" or "unix:/path" in server order, the same for every trainer. A pserver with
        standbys on other hosts has the addresses of all its members: "10.0.0.1:7000|10.0.0.2:7000".
    incarnation: must grow with each start of this trainer; None: configure chooses one above those
    that the servers know. secret: the job's secret, if the servers have one. tls: a directory with
    tls.crt, tls.key and ca.crt (`tandem certs issue`), or (certificate, key, ca), names of PEM
    files. Timeouts are in seconds: start_timeout for servers and initial values, step_timeout for
    pushes, pulls and barriers.
    insecure_allow_network: without tls, allows servers at network addresses, where an attacker on
    the path can read and change all data.
    retries: maximum retries of a call after a connection loss. Retries are harmless: a push counts
    once.

    Calls follow rows and slices that move between servers (tandem rebalance). Pushes to servers
    with durability=replayable are kept until a checkpoint contains them. A restarted server gets
    them with the next call of this client, and serves no calls before.
    """

    def __init__(self, servers, job="job", trainer=0, trainers=1, incarnation=None, secret="",
                 tls=None, start_timeout=60.0, step_timeout=60.0, retries=3,
                 insecure_allow_network=False):
        _check_addresses(servers)
        if not 0 <= trainer < trainers:
            raise ValueError(f"trainer {trainer} is out of range: ranks are 0 to {trainers - 1}")
        self.job, self.trainer, self.trainers = job, trainer, trainers
        self.incarnation = incarnation or 0
        self._start_timeout, self._step_timeout = start_timeout, step_timeout
        self._caller = {"job": job, "trainer_id": trainer, "incarnation": self.incarnation}
        self._calls = Calls(servers, self._caller, secret, tls, retries,
                            insecure_allow_network)
        self._servers = self._calls.servers  # includes servers that join the running job
        self._shapes, self._tables, self._blocks = {}, {}, []
        self._sync, self._initialised = True, []
        self._unfinished = False  # True: configure has begun, and failed or was interrupted
        self._barriers = {}
        self._parts = None  # StepParts in sync mode
        for server in self._servers:
            server.wait(start_timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._calls.close()

    # ---- Setup -----------------------------------------------------------------------------------

    def configure(self, variables, optimizer="sgd", attrs=None, mode="sync", tables=None,
                  slice_var_up=True, min_block_size=8192, dispatcher="round_robin"):
        """Places the variables ({name: shape}) and tables ({name: Table}) and sends every server
        its part. All trainers must pass the same arguments. attrs: hyper-parameters of the
        optimizer as float, int, bool or str. mode: "sync" or "a_sync". Returns a State."""
        self._check_configured()
        if self._shapes or self._tables:
            raise RuntimeError("configure was already called")
        if mode not in MODES:
            raise ValueError(f'mode "{mode}"; expected sync or a_sync')
        self._shapes = {name: _shape(name, shape) for name, shape in variables.items()}
        self._tables = dict(tables or {})
        self._blocks = partition(self._shapes, len(self._servers), slice_var_up, min_block_size,
                                 dispatcher)
        self._sync = mode == "sync"
        self._calls.stamps = not self._sync
        self._calls.placement.place(self._blocks, bool(self._tables))
        if self._sync:
            self._parts = StepParts(self._blocks, self._tables, self._calls.placement)
        self._unfinished = True
        self._choose_incarnation()
        replies = []
        for i in range(len(self._servers)):
            request = self._request("Configure", protocol=1, trainers=self.trainers,
                                    mode=NUMBER[MODES[mode]], keeps_pushes=True,
                                    step_timeout_ms=int(self._step_timeout * 1000))
            request.optimizer.type = optimizer
            for name, value in (attrs or {}).items():
                _set_attr(request.optimizer.attr.add(name=name), value)
            for block in self._blocks_of(i):
                request.slice.add(variable=block.variable, dims=self._shapes[block.variable],
                                  offset=block.offset, numel=block.numel, dtype=NUMBER["F32"],
                                  bucket=self._calls.placement.bucket(block.variable,
                                                                      block.offset))
            for name, table in self._tables.items():
                self._add_table(i, name, table, request)
            replies.append(self._calls.call(i, "Configure", request, self._start_timeout))
        for i, reply in enumerate(replies):
            self._calls.learn(i, reply)
            if reply.replayable:
                self._calls.keep_pushes(reply.keep_bytes_max)
        if self._sync:
            self._calls.ask_added()
        owners = [r for i, r in enumerate(replies) if self._owns(i)]
        self._initialised = [r.initialised for r in replies]
        self._unfinished = False
        return State(all(r.initialised for r in owners), any(r.restored for r in owners),
                     min((r.version for r in owners), default=0))

    def init_or_fetch(self, params, version=0):
        """Gives every trainer the same initial values. If the servers have no values yet, trainer 0
        sends `params` and `version` (the number of steps that led to them), and the other trainers
        wait. Then every trainer receives the servers' values into `params`. Returns the servers'
        version."""
        self._check_all(params, writable=True)
        if self.trainer == 0:
            self._send_first(params, version)
        versions = []
        for i in range(len(self._servers)):
            if self._owns(i):
                request = self._request("WaitInit", timeout_ms=_wait_ms(self._start_timeout))
                reply = self._calls.call(i, "WaitInit", request, self._start_timeout)
                versions.append(reply.version)
        lowest = min(versions, default=0)
        return self.pull(params, lowest, exactly=self._sync) if params else lowest

    # ---- Training --------------------------------------------------------------------------------

    def push(self, step, learning_rate, gradients, rows=None, event_time=None):
        """Sends gradients ({name: array}) of `step`, and gradients of table rows ({name: (ids,
        values)}, ids ascending). With accessor=ctr: (ids, values, counts), where counts
        [len(ids), 2] are the shows and clicks of each row. In sync mode, a step is complete when
        all trainers have pushed all variables and all tables (possibly without rows). A step may
        consist of several pushes, each variable in one of them. The servers add the gradients of
        the trainers. For the mean over the whole batch, each trainer divides its gradients by the
        number of trainers. `event_time`: Unix time in seconds (as of time.time()) of the newest
        sample that led to the gradients, for tables with the rules ttl_s or shrink_every_s; None:
        unknown. A step that is sent again must have the same time. ValueError: the time is more
        than a day in the future."""
        requests = self._push_requests(step, learning_rate, gradients, rows, event_time)
        replies = self._send_step(step, requests, (), gradients, rows)
        return min((r.version for r in replies), default=0)

    def pull(self, params, min_version=0, exactly=False):
        """Receives parameters into the arrays of `params` when their version is at least
        min_version (sync: step + 1), or exactly min_version. Returns the lowest version."""
        self._check_all(params, writable=True)
        if self._parts is not None:
            self._parts.check_pull(params, min_version)
        requests = self._pull_requests(params, min_version, exactly)
        replies = self._calls.pull_all(list(requests.items()), self._step_timeout)
        return self._receive(params, replies)

    def push_pull(self, step, learning_rate, gradients, params, rows=None, event_time=None):
        """Combines push with a pull of the parameters after this step (a_sync: of the current
        parameters) in one message. Returns the lowest version: in sync mode the next step. Raises
        ValueError if this trainer's part of the step lacks a variable for which the servers would
        wait."""
        self._check_all(params, writable=True)
        requests = self._push_requests(step, learning_rate, gradients, rows, event_time)
        if self._parts is not None:
            self._parts.check(step, (*gradients, *(rows or ())), params)
        pulls = self._pull_requests(params, step + 1 if self._sync else 0, False)
        for i in requests:
            if i in pulls:
                requests[i].pull.CopyFrom(pulls.pop(i))
            elif self._sync and rows:  # without values: the reply comes after the step
                requests[i].pull.CopyFrom(self._pull_request(step + 1, False))
                requests[i].pull.rows.add(variable=next(iter(rows)))
        replies = self._send_step(step, requests, pulls.items(), gradients, rows)
        pulled = [_pulled(r) for r in replies]
        self._receive(params, [p for p in pulled if p is not None])
        # Sync: the version of a push without a pull may be that before the step.
        versions = [p.version for p in pulled if p is not None] if self._sync else []
        return min(versions or (r.version if p is None else p.version
                                for r, p in zip(replies, pulled)), default=0)

    def pull_rows(self, table, ids, min_version=0):
        """Returns rows of a table, [len(ids), dim], when the version is at least min_version. Rows
        without a gradient have their initial values; the pull creates no row."""
        spec = self._table(table)
        ids = _check_ids(table, ids, spec.height)
        out = numpy.empty((ids.size, spec.dim), numpy.float32)

        def receive():
            owners = self._calls.placement.owners(ids)
            requests = []
            for i in numpy.unique(owners).tolist():
                requests.append((i, self._pull_request(min_version, False)))
                requests[-1][1].rows.add(variable=table, id=ids[owners == i].tolist())
            replies, moved = self._calls.call_all("Pull", requests, self._step_timeout)
            for i, _, reply in replies:
                values = numpy.frombuffer(reply.slice[0].tensor.content, "<f4")
                out[owners == i] = values.reshape(-1, spec.dim)
            if moved:
                raise moved[0][2]

        self._until_there(receive)
        return out

    def pull_table(self, table):
        """Returns all rows that had a gradient: (ids, values), ids ascending."""
        spec = self._table(table)
        ids, values = [], []
        bucket = 0

        def receive():
            nonlocal bucket
            owner, end = self._calls.placement.run(bucket)
            while bucket < end:
                reply = self._calls.call(owner, "PullTable", METHODS["PullTable"][0](
                    job=self.job, variable=table, bucket_begin=bucket, bucket_end=end),
                    self._start_timeout)
                ids.append(numpy.array(reply.rows.id, numpy.int64))
                content = numpy.frombuffer(reply.rows.content, "<f4")
                values.append(content.reshape(-1, spec.dim))
                bucket = reply.next_bucket

        while bucket < ROW_BUCKETS:
            self._until_there(receive)
        ids, values = numpy.concatenate(ids), numpy.concatenate(values)
        order = numpy.argsort(ids)
        return ids[order], values[order]

    # ---- The job ---------------------------------------------------------------------------------

    def barrier(self, name):
        """Blocks until every trainer that has not completed has called barrier."""
        generation = self._barriers[name] = self._barriers.get(name, 0) + 1
        request = self._request("Barrier", name=name, generation=generation,
                                timeout_ms=_wait_ms(self._step_timeout))
        self._calls.call(0, "Barrier", request, self._step_timeout)

    def complete(self):
        """Declares that this trainer sends no more pushes; other trainers do not wait for it."""
        for i in range(len(self._servers)):
            matters = not self._has_left(i)
            try:
                self._calls.call(i, "Complete", self._request("Complete"),
                                 self._step_timeout if matters else 1.0)
            except PserverError:
                if matters:
                    raise

    def save(self, delta=False):
        """Makes every server write a checkpoint. Returns the lowest version. delta: for tables,
        writes only rows that changed since the last full checkpoint."""
        return self._on_owners("SaveCheckpoint", mode=int(delta))

    def restore(self):
        """Makes every server restore its checkpoint. Returns the lowest version."""
        if self._parts is not None:
            self._parts.forget()
        return self._on_owners("RestoreCheckpoint")

    def status(self):
        """Returns a ServerStatus of each server, except servers that gave all their buckets away
        (tandem drain), which may have stopped."""
        found = []
        for i, server in enumerate(self._servers):
            if self._has_left(i):
                continue
            reply = server.call("GetStatus", METHODS["GetStatus"][0](), self._step_timeout)
            found.append(ServerStatus(server.address, reply.configured, reply.initialised,
                                      reply.version, reply.checkpoint_version,
                                      sum(s.numel for s in reply.slice),
                                      sum(t.rows for t in reply.table),
                                      sum(t.extended for t in reply.table)))
        return found

    # ---- Requests --------------------------------------------------------------------------------

    def _request(self, method, **fields):
        return self._calls.request(method, **fields)

    def _owner(self, block):
        return self._calls.placement.slice_owner(block.variable, block.offset)

    def _blocks_of(self, server):
        """Returns the blocks of a server in the initial placement."""
        return [block for block in self._blocks if block.server == server]

    def _choose_incarnation(self):
        """Chooses a random incarnation above those that the servers know. If two processes choose
        at the same time, the servers keep the one with the higher number."""
        if self.incarnation:
            return
        newest = 0
        for server in self._servers:
            reply = server.call("GetStatus", METHODS["GetStatus"][0](), self._start_timeout)
            newest = max([newest] + [t.incarnation for t in reply.trainer
                                     if t.trainer_id == self.trainer])
        self.incarnation = newest + 1 + random.SystemRandom().randrange(INCARNATION_RANGE)
        self._caller["incarnation"] = self.incarnation

    def _owns(self, server):
        return self._calls.placement.owns(server)

    def _has_left(self, server):
        """Whether the server gave all its buckets away; it may have stopped."""
        return self._calls.placement.moved and not self._owns(server)

    def _until_there(self, receive):
        """Calls `receive` until the called servers own the rows."""
        end, attempt = time.monotonic() + self._step_timeout, 0
        while True:
            try:
                return receive()
            except PserverError as error:
                if error.code != "OUT_OF_RANGE" or time.monotonic() >= end:
                    raise
            owners = [i for i in range(len(self._servers)) if self._owns(i)]
            self._calls.exchange(owners, attempt)
            attempt += 1

    def _check_configured(self):
        if self._unfinished:
            raise RuntimeError("the client cannot be used, because its call of configure did not "
                               "complete; make another client")

    def _table(self, name):
        self._check_configured()
        if name not in self._tables:
            raise KeyError(f'there is no table "{name}"; configured are {sorted(self._tables)}')
        return self._tables[name]

    def _check_all(self, arrays, writable=False):
        self._check_configured()
        for name, array in arrays.items():
            if name not in self._shapes:
                raise KeyError(f'there is no variable "{name}"; configured are '
                               f"{sorted(self._shapes)}")
            _check(name, array, self._shapes[name], writable)

    def _add_table(self, server, name, table, request):
        if not isinstance(table, Table):
            raise TypeError(f"table {name} is {table!r}, expected Table(height, dim)")
        if table.init not in INIT_KINDS:
            raise ValueError(f'table {name}: there is no init "{table.init}"; there are '
                             f"{', '.join(INIT_KINDS)}")
        definition = request.table.add(variable=name, dims=(table.height, table.dim),
                                       seed=table.seed, rules=table.rules,
                                       bucket_begin=first_bucket(server, len(self._servers)),
                                       bucket_end=first_bucket(server + 1, len(self._servers)))
        definition.init.kind = INIT_KINDS.index(table.init)
        definition.init.a, definition.init.b = table.a, table.b

    def _send_first(self, params, version):
        for i in range(len(self._initialised)):
            if self._initialised[i] or not self._owns(i):
                continue
            request, size = self._request("InitParams", version=version), 0
            for block in self._blocks_of(i):
                if block.variable not in params:
                    raise KeyError(f'the first values of "{block.variable}" are missing')
                _add_slice(request.param, block, params[block.variable])
                size += 4 * block.numel
                if size >= INIT_BYTES_MAX:
                    self._calls.call(i, "InitParams", request, self._start_timeout)
                    request, size = self._request("InitParams", version=version), 0
            for name in self._tables:
                request.rows.add(variable=name, last=True)
            self._calls.call(i, "InitParams", request, self._start_timeout)

    def _push_request(self, step, learning_rate, event_time):
        if learning_rate is None:  # the field would stay unset: a step with rate 0
            raise TypeError("learning_rate is None, expected a number")
        return self._request("Push", step=step, learning_rate=learning_rate,
                             event_time_ms=_event_time_ms(event_time))

    def _push_requests(self, step, learning_rate, gradients, rows, event_time):
        self._check_all(gradients)
        parts = {}

        def part(server):
            if server not in parts:
                parts[server] = self._push_request(step, learning_rate, event_time)
            return parts[server]

        for block in self._blocks:
            if block.variable in gradients:
                _add_slice(part(self._owner(block)).slice, block, gradients[block.variable])
        for name, given in (rows or {}).items():
            table = self._table(name)
            if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
                raise TypeError(f"rows of {name}: expected (ids, values) or (ids, values, counts)")
            ids, values, *counts = given
            ids = _check_ids(name, ids, table.height)
            _check(name, values, (ids.size, table.dim))
            for pairs in counts:
                _check(f"counts of {name}", pairs, (ids.size, 2))
                values = numpy.hstack((pairs, values))
            if ids.size and (numpy.diff(ids) <= 0).any():
                raise ValueError(f"{name}: row ids must be ascending and unique")
            owners = self._calls.placement.owners(ids)
            for i in range(len(self._servers)):
                if self._calls.placement.owns_rows(i):
                    add_rows(part(i).slice, name, ids[owners == i], values[owners == i])
        return parts

    def _send_step(self, step, requests, pulls, gradients, rows):
        warn_of_spinning([server.address for server in self._servers])
        if self._parts is not None:  # before the call: a failed push may have been accepted
            self._parts.add(step, (*gradients, *(rows or ())))
        try:
            return self._calls.push_all(list(requests.items()), self._step_timeout, pulls)
        except PserverError as error:
            raise error.at_step(step) from None

    def _pull_request(self, min_version, exactly):
        request = self._request("Pull", min_version=min_version,
                                timeout_ms=_wait_ms(self._step_timeout))
        if exactly:
            request.at_version = min_version
        return request

    def _pull_requests(self, params, min_version, exactly):
        requests = {}
        for block in self._blocks:
            if block.variable not in params:
                continue
            owner = self._owner(block)
            if owner not in requests:
                requests[owner] = self._pull_request(min_version, exactly)
            requests[owner].range.add(variable=block.variable, offset=block.offset,
                                      numel=block.numel)
        return requests

    def _on_owners(self, method, **fields):
        request = METHODS[method][0](job=self.job, **fields)
        return min(self._calls.call(i, method, request, self._start_timeout).version
                   for i in range(len(self._servers)) if self._owns(i))

    @staticmethod
    def _receive(params, replies):
        for reply in replies:
            for piece in reply.slice:
                if piece.variable not in params:  # no rows of a table
                    continue
                values = numpy.frombuffer(piece.tensor.content, "<f4")
                flat = params[piece.variable].reshape(-1)
                flat[piece.offset:piece.offset + values.size] = values
        return min((r.version for r in replies), default=0)


def _event_time_ms(event_time):
    if event_time is None:
        return 0
    if not 0 <= event_time <= time.time() + 86400:  # it would count from then on
        raise ValueError(f"event_time is {event_time:.3f}, expected seconds of Unix time up to a day "
                         "from now")
    return round(event_time * 1000)


def _wait_ms(seconds):
    """The unit and minimum of the servers: milliseconds, at least 1."""
    return max(1, int(seconds * 1000))


def _pulled(reply):
    """Returns the PullReply in the reply to a push, or the reply to a separate pull."""
    if reply.DESCRIPTOR.name == "PullReply":
        return reply
    return reply.pulled if reply.HasField("pulled") else None


def _set_attr(attr, value):
    field = {bool: "b", int: "i", float: "f", str: "s"}.get(type(value))
    if field is None:
        raise TypeError(f"optimizer attribute {attr.name} is {type(value).__name__}; expected "
                        "float, int, bool or str")
    setattr(attr, field, value)


def _add_slice(slices, block, array):
    piece = slices.add(variable=block.variable, offset=block.offset)
    piece.tensor.dtype = NUMBER["F32"]
    piece.tensor.dims.append(block.numel)
    flat = numpy.ascontiguousarray(array).reshape(-1)
    piece.tensor.content = flat[block.offset:block.offset + block.numel].astype("<f4").tobytes()
