"""Calls to the servers of a job. They are repeated while rows and slices move, and while restarted
servers wait for retransmitted pushes."""

import queue
import time

import numpy

from .channel import Server
from .errors import PserverError
from .kept import KeptPushes
from .messages import METHODS, NUMBER
from .placement import Placement

EXCHANGE_SECONDS = 1.0
# Errors with which a server rejects a push without a pull.
REFUSED = ("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION")


class Calls:
    """`caller`: the fields job, trainer_id and incarnation of requests."""

    def __init__(self, addresses, caller, secret, tls, retries, insecure_allow_network=False):
        self._made_of = (caller["job"], secret, tls, retries, insecure_allow_network)
        self._caller = caller
        self.servers = []
        for address in addresses:
            self._add(address)
        self.placement = Placement(len(addresses))
        self.kept = None  # KeptPushes if servers require kept pushes
        self.stamps = False  # True (a_sync): pushes have the fields sent and ended

    def close(self):
        for server in self.servers:
            server.close()

    def request(self, method, **fields):
        return METHODS[method][0](**self._caller, **fields)

    def _add(self, address):
        self.servers.append(Server(len(self.servers), address, *self._made_of))

    # ---- Moves known to servers ------------------------------------------------------------------

    def learn(self, server, reply):
        self.placement.learn(server, reply.map, reply.generation, self._meet)

    def _meet(self, index, address):
        if index == len(self.servers) and address:
            self._add(address)
        return index < len(self.servers)

    def exchange(self, servers, attempt):
        """Exchanges bucket maps with servers. A new owner serves its buckets after it learns of
        their release."""
        time.sleep(min(0.1, 0.001 * 2**attempt))
        for i in sorted(servers):
            request = self.request("ExchangeMap")
            self.placement.tell(request.known)
            try:
                self.learn(i, self.call(i, "ExchangeMap", request, EXCHANGE_SECONDS))
            except PserverError as error:
                # The next attempt calls a server without a reply again.
                if error.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
                    raise

    def ask_added(self):
        """Fetches the bucket maps of servers that joined the running job."""
        asked = set(range(self.placement.first_servers))
        while True:
            added = {i for i in range(len(self.servers)) if self.placement.owns(i)} - asked
            if not added:
                return
            self.exchange(added, 0)
            asked |= added

    def keep_pushes(self, bytes_max):
        if self.kept is None:
            self.kept = KeptPushes(bytes_max)

    # ---- One call --------------------------------------------------------------------------------

    def call(self, server, method, request, seconds):
        return self._finish(server, self.servers[server].start(method, request, seconds))

    def _finish(self, server, started):
        while True:
            reply = self._take(server, started)
            if reply is not None:
                return reply

    def _take(self, server, started):
        """Like Server.take. Also returns None if the server first needed other calls. This
        function made them."""
        try:
            return self.servers[server].take(started)
        except PserverError as error:
            asks = error.code == "DATA_LOSS" and (self.kept or started.method == "Configure")
            waits = error.code == "UNAVAILABLE" and self.kept
            if not (asks or waits) or time.monotonic() + started.pause >= started.deadline:
                raise
            if asks and self.kept:
                self._send_again(server, started.deadline)
            elif asks:
                self._tell(range(server))
        time.sleep(started.pause)
        started.pause = min(0.1, 2 * started.pause)
        self.servers[server].again(started)
        return None

    def _tell(self, servers):
        """Exchanges maps with servers that Configure called earlier. Such a server may wait for
        pushes that were lost with this trainer's predecessor. It then also blocks other trainers,
        whose pushes the current server may need."""
        for i in servers:
            try:
                self.servers[i].call("ExchangeMap", self.request("ExchangeMap"), EXCHANGE_SECONDS)
            except PserverError:
                pass  # the next attempt repeats the call

    def _send_again(self, server, deadline):
        for request in self.kept.of(server):
            try:
                seconds = max(0.0, deadline - time.monotonic())
                reply = self.servers[server].call("Push", request, seconds)
                self.kept.answered(server, request.sequence, reply.log_number)
            except PserverError as error:
                # DATA_LOSS: the server needs other pushes, not this one.
                if error.code != "DATA_LOSS":
                    return

    # ---- Several at once -------------------------------------------------------------------------

    def call_all(self, method, requests, seconds):
        """`requests`: pairs of server and request. Returns (server, request, reply) of each call,
        and (server, request, error) of calls that must go to another server. Waits for all calls,
        then raises the first failure."""
        started = [(i, request, self.servers[i].start(method, request, seconds))
                   for i, request in requests]
        replies, moved, failure = [], [], None
        for i, request, call in started:
            try:
                replies.append((i, request, self._finish(i, call)))
                self._ended(i, request, replies[-1][2])
            except PserverError as error:
                self._failed(i, request, error)
                if error.code == "OUT_OF_RANGE":
                    moved.append((i, request, error))
                else:
                    failure = failure or error
        if failure is not None:
            raise failure
        return replies, moved

    def _ended(self, server, request, reply):
        if self.kept is not None and request.DESCRIPTOR.name == "PushRequest":
            self.kept.answered(server, request.sequence, reply.log_number)
            self.kept.checkpointed(server, reply.kept_number)

    def _failed(self, server, request, error):
        push = self.kept is not None and request.DESCRIPTOR.name == "PushRequest"
        if push and error.code in REFUSED and not request.HasField("pull"):
            self.kept.drop(server, request.sequence)
        if push and error.code == "RESOURCE_EXHAUSTED":  # rejected, or accepted and not logged
            self.kept.doubtful(server, request.sequence)

    # ---- Pulls of slices -------------------------------------------------------------------------

    def pull_all(self, pulls, seconds):
        """`pulls`: pairs of server and PullRequest. Returns the replies."""
        end = time.monotonic() + seconds
        replies, attempt = [], 0
        while pulls:
            there, moved = self.call_all("Pull", pulls, seconds)
            replies += [reply for _, _, reply in there]
            if moved and time.monotonic() >= end:
                raise moved[0][2]
            if moved:
                self._exchange_all({i for i, _, _ in moved}, attempt)
                attempt += 1
            pulls = self._pulls_anew([request for _, request, _ in moved])
        return replies

    def _pulls_anew(self, requests):
        """Groups the pulled ranges by their current owners."""
        parts = {}
        for request in requests:
            for piece in request.range:
                owner = self.placement.slice_owner(piece.variable, piece.offset)
                if owner not in parts:
                    parts[owner] = METHODS["Pull"][0]()
                    parts[owner].CopyFrom(request)
                    del parts[owner].range[:]
                parts[owner].range.append(piece)
        return list(parts.items())

    def _exchange_all(self, also, attempt):
        for _ in range(2):  # round 1 collects the moves, round 2 distributes them
            owners = {i for i in range(len(self.servers)) if self.placement.owns(i)}
            self.exchange(owners | also, attempt)

    # ---- Pushes ----------------------------------------------------------------------------------

    def push_all(self, requests, seconds, pulls=()):
        """`requests`: pairs of server and PushRequest, not numbered yet; `pulls`: pairs of server
        and PullRequest. Returns the replies."""
        end = time.monotonic() + seconds
        replies, attempt, pulls = [], 0, list(pulls)
        self._make_room(sum(request.ByteSize() for _, request in requests), seconds)
        ended = self._sent()  # all earlier pushes: there is one push at a time
        self._number(requests, ended)
        if not self.stamps:
            replies = self._push_step(requests, seconds, pulls, ended)
            return replies + self.pull_all(pulls, seconds)
        while requests:
            stale = self._stale_ones(requests) if attempt > 0 else set()
            taken, moved = self.call_all("Push", requests, seconds)
            for i, request, reply in taken:
                replies.append(reply)
                _pull_left(i, request, reply, pulls)
            requests = []
            if moved and time.monotonic() >= end:
                raise moved[0][2]
            for i, request, _ in moved:
                self.exchange({i} | self._owners_of(request), attempt)
                attempt += 1
                if (i, request.sequence) not in stale:
                    # The bucket is moving, new pushes are held, or a delayed copy may be accepted.
                    requests.append((i, request))
                else:
                    if self.kept is not None:
                        self.kept.drop(i, request.sequence)
                    anew = self._cut_anew([(i, request)], pulls)
                    self._number(anew, ended)
                    requests += anew
        return replies + self.pull_all(pulls, seconds)

    def _push_step(self, requests, seconds, pulls, ended):
        """Sync: the reply to an accepted push may come only after the step, which may wait for the
        rejected pushes. Rejected pushes are therefore redirected while others are in progress.
        Returns the replies."""
        end = time.monotonic() + seconds
        served = {i for i, request in requests if _has_rows(request)}
        arrived, under_way, stale = queue.SimpleQueue(), [], set()
        replies, refused, failure, attempt = [], [], None, 0

        def hear(call):
            call[1].future.add_done_callback(lambda _: arrived.put(call))

        def send(requests):
            if attempt > 0:
                stale.update(self._stale_ones(requests))
            for i, request in requests:
                under_way.append((i, self.servers[i].start("Push", request, seconds)))
                hear(under_way[-1])

        send(requests)
        while under_way:
            call = i, started = arrived.get()
            try:
                reply = self._take(i, started)
                if reply is None:
                    hear(call)
                    continue
                self._ended(i, started.request, reply)
                replies.append(reply)
                _pull_left(i, started.request, reply, pulls)
            except PserverError as error:
                self._failed(i, started.request, error)
                if error.code == "OUT_OF_RANGE" and time.monotonic() < end:
                    refused.append((i, started.request))
                else:
                    failure = failure or error
            under_way.remove(call)
            if refused and arrived.empty() and failure is None:
                others = [(i, started.request) for i, started in under_way]
                same, anew = self._redirect_step(refused, stale, others, attempt, pulls, served)
                refused, attempt = [], attempt + 1
                self._number(anew, ended)
                send(same + anew)
        if failure is not None:
            raise failure
        return replies

    def _stale_ones(self, requests):
        """Returns (server, sequence) of the pushes that their server will always reject, as known
        when the pushes are sent. After a rejection, the server may still accept a delayed copy of
        any other push. Such a push is sent again under the same number."""
        stale = set()
        for i, request in requests:
            changed = self.placement.generations.get(i, 0) != request.generation
            if changed or self._owners_of(request) - {i}:
                stale.add((i, request.sequence))
        return stale

    def _redirect_step(self, refused, known_stale, under_way, attempt, pulls, served):
        """Sync: a server accepts rows of a table once per step and trainer, so rejected pushes are
        handled together. `served`: servers to which rows of the push were sent. Returns the pushes
        to repeat unchanged, and the repartitioned pushes."""
        self._exchange_all({i for i, _ in refused}, attempt)
        stale = [(i, r) for i, r in refused if (i, r.sequence) in known_stale]
        same = [(i, r) for i, r in refused if (i, r.sequence) not in known_stale]
        left = {i for i, r in stale if _has_rows(r)}
        everybody = set()  # servers that need an entry for every table
        if left:
            owners = {i for i in range(len(self.servers)) if self.placement.owns_rows(i)}
            everybody = owners - (served - left)
        # Rows for a server wait until the other pushes with rows to it have ended.
        meets = left.union(everybody, *(self._owners_of(r) for _, r in stale if _has_rows(r)))
        if not stale or any(_has_rows(r) and ({i} | self._owners_of(r)) & meets
                            for i, r in same + under_way):
            return refused, []
        served -= left
        served |= everybody
        return same, self._cut_anew(stale, pulls, everybody)

    def _sent(self):
        return [server.sequence for server in self.servers]

    def _number(self, requests, ended):
        for i, request in requests:
            self.servers[i].sequence += 1
            request.sequence = self.servers[i].sequence
            request.generation = self.placement.generations.get(i, 0)
        for i, request in requests:
            if self.stamps:
                request.sent.extend(self._sent())
                request.ended.extend(ended)
            if self.kept is not None:
                self.kept.keep(i, request)

    def _make_room(self, size, seconds):
        if self.kept is None or self.kept.bytes + size <= self.kept.bytes_max:
            return
        for i, number in self.kept.newest().items():
            save = METHODS["SaveCheckpoint"][0](job=self._caller["job"], unless_kept=number)
            self.kept.checkpointed(i, self.call(i, "SaveCheckpoint", save, seconds).kept_number)

    def _owners_of(self, request):
        owners = set()
        pieces = iter(request.slice)
        for piece in pieces:
            if piece.tensor.dtype == NUMBER["I64"]:
                owners.update(self.placement.owners(_array(piece, "<i8")).tolist())
                next(pieces)  # skips the values of the row ids
            else:
                owners.add(self.placement.slice_owner(piece.variable, piece.offset))
        return owners

    def _cut_anew(self, refused, pulls, everybody=()):
        """Sends the contents of finally rejected pushes to the current owners. Servers of
        `everybody` get an entry for every table, possibly without rows."""
        parts, rows = {}, {}
        _, first = refused[0]

        def part(i):
            if i not in parts:
                parts[i] = self.request("Push", step=first.step,
                                        learning_rate=first.learning_rate,
                                        event_time_ms=first.event_time_ms)
            return parts[i]

        for _, request in refused:
            pieces = iter(request.slice)
            for piece in pieces:
                if piece.tensor.dtype != NUMBER["I64"]:
                    owner = self.placement.slice_owner(piece.variable, piece.offset)
                    part(owner).slice.append(piece)
                    continue
                values = next(pieces)
                rows.setdefault(piece.variable, []).append(
                    (_array(piece, "<i8"), _array(values, "<f4").reshape(tuple(values.tensor.dims))))
        for table, pieces in rows.items():
            ids = numpy.concatenate([ids for ids, _ in pieces])
            values = numpy.concatenate([values for _, values in pieces])
            order = numpy.argsort(ids)
            ids, values = ids[order], values[order]
            owners = self.placement.owners(ids)
            for i in sorted(set(owners.tolist()) | set(everybody)):
                add_rows(part(i).slice, table, ids[owners == i], values[owners == i])
        pulled = self._pulls_anew([r.pull for _, r in refused if r.HasField("pull")])
        for server, pull in pulled:
            if server in parts:
                parts[server].pull.CopyFrom(pull)
            else:
                pulls.append((server, pull))
        if not self.stamps:
            self._await_step(refused, parts.values())
        return list(parts.items())

    @staticmethod
    def _await_step(refused, requests):
        """Sync: new pushes of rows wait for the step, as the rejected pushes did."""
        waits = next((r.pull for _, r in refused if r.HasField("pull")), None)
        for request in requests:
            table = next((s.variable for s in request.slice
                          if s.tensor.dtype == NUMBER["I64"]), None)
            if waits is not None and table is not None and not request.HasField("pull"):
                request.pull.CopyFrom(waits)
                del request.pull.range[:]
                del request.pull.rows[:]
                request.pull.rows.add(variable=table)


def _has_rows(request):
    return any(s.tensor.dtype == NUMBER["I64"] for s in request.slice)


def _pull_left(server, request, reply, pulls):
    """Adds the pull of an accepted push if the pulled elements have moved."""
    if request.HasField("pull") and not reply.HasField("pulled"):
        pulls.append((server, request.pull))


def _array(piece, kind):
    return numpy.frombuffer(piece.tensor.content, kind)


def add_rows(slices, name, ids, values):
    """Adds a gradient of rows: the ids of the rows, then the values of the gradient."""
    piece = slices.add(variable=name)
    piece.tensor.dtype = NUMBER["I64"]
    piece.tensor.dims.append(ids.size)
    piece.tensor.content = ids.astype("<i8").tobytes()
    piece = slices.add(variable=name)
    piece.tensor.dtype = NUMBER["F32"]
    piece.tensor.dims.extend(values.shape)
    piece.tensor.content = values.astype("<f4").tobytes()
