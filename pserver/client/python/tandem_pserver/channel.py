"""One server: its channel, calls with deadlines, and errors of calls."""

import ipaddress
import os
import random
import socket
import ssl
import stat
import time

import google.protobuf.message
import grpc

from . import checksum
from .errors import PserverError
from .messages import METHODS
from .session import Session, was_lost

# Seconds by which the client waits longer than the server, because the server's own error has more
# details than "deadline exceeded".
GRACE_SECONDS = 2.0
SESSIONS_LOST_MAX = 4  # per call; a restarted server knows no session
# Seconds before the first retry, and before a later retry at most (pserver/client/carrier/retry.h).
# A server that ends rejects calls until it closes their connection.
BACKOFF_SECONDS, BACKOFF_MAX_SECONDS = 0.05, 1.0
# Servers accept 1 MiB on a connection before they accepted one of its calls
# (common/rpc/stranger_budget.h); larger requests wait until a small call was accepted.
UNKNOWN_BYTES_MAX = 64 << 10


class Started:
    """A call in progress."""

    def __init__(self, method, request, deadline):
        self.method, self.request, self.deadline = method, request, deadline
        self.future, self.retries = None, 0
        self.session, self.sessions_lost = b"", 0  # session of the last attempt
        self.pause = 0.001  # seconds before a retry to a server that needs other calls first
        self._begin = time.monotonic()

    def code(self, error):
        """Returns the name of the error's code. A server that SIGTERM ends cancels its calls, so
        CANCELLED of the server is UNAVAILABLE."""
        return "UNAVAILABLE" if error.code == "CANCELLED" else error.code

    def explain(self, error):
        """Returns the server's message, or an explanation of gRPC's own error."""
        if error.code == "CANCELLED":
            return "the server cancelled the call: " + error.details
        if error.code != "DEADLINE_EXCEEDED" or error.details != "Deadline Exceeded":
            return error.details
        return (f"the server did not reply within {time.monotonic() - self._begin:.1f} s [TD4025]; "
                "hint: start it again at this address, or raise step_timeout (start_timeout before "
                "the first step)")


class Failed(Exception):
    """An attempt of a call failed. `code`: the name of the status code."""

    def __init__(self, code, details):
        super().__init__(details)
        self.code, self.details = code, details


class Refused:
    """Replaces the future of a call that was not sent."""

    def __init__(self, error):
        self._error = error

    def result(self):
        raise self._error

    def add_done_callback(self, done):
        done(self)


class Server:
    """Not thread-safe. `tls`: (certificate, key, ca), names of PEM files, or the directory of
    tls.crt, tls.key and ca.crt."""

    def __init__(self, index, address, job, secret, tls, retries, insecure_allow_network=False):
        self.address = address
        self.name = f"pserver {index} ({address})"
        if tls is None and not insecure_allow_network and not _is_loopback(address):
            raise PserverError(
                "PERMISSION_DENIED", self.name, "connect",
                f"gradients and parameters would go to {address} over the network without "
                "encryption [TD6023]; hint: set tls=DIR, or insecure_allow_network=True in a "
                "trusted network")
        if address.startswith("unix:/"):
            _check_own_socket(address[5:], self.name)
        self._session = Session(secret, job, address) if secret else None
        self._retries, self._random = retries, random.Random()
        # TLS finds changed bytes itself, and a Unix socket is memory of this host.
        self._checksums = tls is None and not address.startswith("unix:/")
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                   # The channel reconnects to a restarted server within a second.
                   ("grpc.initial_reconnect_backoff_ms", 100),
                   # One attempt: a server may let a caller wait (common/rpc/admissions.h).
                   ("grpc.min_reconnect_backoff_ms", 5000),
                   ("grpc.max_reconnect_backoff_ms", 1000)]
        if isinstance(tls, (str, os.PathLike)):
            tls = tuple(os.path.join(tls, name) for name in ("tls.crt", "tls.key", "ca.crt"))
        self._tls = tls
        target, parts = _dialled(address), address.split("|")
        if len(parts) > 1:
            # The members of a pserver with standbys on other hosts: the first that answers serves.
            target = "ipv4:" + ",".join(parts)
            options += [("grpc.keepalive_time_ms", 1000), ("grpc.keepalive_timeout_ms", 4000),
                        ("grpc.min_reconnect_backoff_ms", 2000)]
        if target != address:
            options.append(("grpc.default_authority", parts[0]))
        if tls is None:
            self._channel = grpc.insecure_channel(target, options)
        else:
            certificate, key, ca = (_read(path) for path in tls)
            credentials = grpc.ssl_channel_credentials(ca, key, certificate)
            self._channel = grpc.secure_channel(target, credentials, options)
        self._calls = {
            name: self._channel.unary_unary("/tandem.ParameterServer/" + name)  # bytes to bytes
            for name in METHODS}
        self.sequence = 0  # number of the last push

    def wait(self, seconds):
        """Waits until the server accepts connections. Raises PserverError after `seconds`, or
        immediately if waiting cannot help."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            # Tries to connect once: after a failure, the channel stays idle until the next request.
            ready = grpc.channel_ready_future(self._channel)
            try:
                return ready.result(timeout=max(0.0, min(1.0, left)))
            except grpc.FutureTimeoutError:
                ready.cancel()
                why = _why_refused(self.address, self._tls)
                if why is not None:
                    raise PserverError("UNAUTHENTICATED", self.name, "connect", why) from None
                if left <= 1.0:
                    raise PserverError("UNAVAILABLE", self.name, "connect",
                                       f"the server did not reply within {seconds:g} s [TD4001]; "
                                       "hint: check that it runs and that its address is right"
                                       ) from None

    def start(self, method, request, seconds):
        """Sends the request and returns the call in progress."""
        started = Started(method, request, time.monotonic() + seconds + GRACE_SECONDS)
        self.again(started)
        return started

    def take(self, started):
        """Waits for the `future` of a call and returns the reply. None: the call was sent again,
        because its connection broke or the server did not know its session."""
        try:
            return self._reply(started.method, started.future)
        except Failed as error:
            if self._session and was_lost(error.code, error.details):
                started.sessions_lost += 1
                if started.sessions_lost <= SESSIONS_LOST_MAX:
                    self._session.forget(started.session)
                    self._send(started)
                    return None
            if not self._pause_before_retry(started, started.code(error)):
                raise PserverError(started.code(error), self.name, started.method,
                                   started.explain(error)) from None
        if started.request.ByteSize() > UNKNOWN_BYTES_MAX:
            self._introduce(started)
        self._send(started)
        return None

    def _pause_before_retry(self, started, code):
        """Returns False if an attempt that ended with `code` was the last one."""
        longest = min(BACKOFF_MAX_SECONDS,
                      BACKOFF_SECONDS * 2**min(5, self._retries - started.retries))
        pause = longest * self._random.uniform(0.5, 1.0)
        late = time.monotonic() + pause >= started.deadline
        if code != "UNAVAILABLE" or started.retries == 0 or late:
            return False
        time.sleep(pause)
        started.retries -= 1
        return True

    def again(self, started):
        """Repeats the call with the same deadline."""
        started.retries = self._retries
        self._send(started)

    def finish(self, started):
        while True:
            reply = self.take(started)
            if reply is not None:
                return reply

    def call(self, method, request, seconds):
        return self.finish(self.start(method, request, seconds))

    def close(self):
        self._channel.close()

    def _send(self, started):
        metadata = ()
        if self._session:
            if not self._session.id:
                try:
                    self._open_session(started)
                except PserverError as error:
                    started.future = Refused(error)
                    return
            started.session = self._session.id
            metadata = self._session.stamp(started.method)
        seconds = max(0.001, started.deadline - time.monotonic())
        started.future = self._begin(started.method, started.request, seconds, metadata)

    def _begin(self, method, request, seconds, metadata=()):
        message = request.SerializeToString()
        if self._checksums:
            metadata += ((checksum.METADATA, checksum.of_request(method, message)),)
        return self._calls[method].future(message, timeout=seconds, metadata=metadata,
                                          wait_for_ready=True)

    def _reply(self, method, future):
        """Waits for a future of _begin and returns the reply. Raises Failed, also if the reply does
        not have its checksum: UNAVAILABLE, so that the call is repeated."""
        error, message = None, b""
        try:
            message = future.result()
        except grpc.RpcError as failure:
            error = failure
        source = future if error is None else error
        # gRPC returns None if the reply has a status and no message.
        if message is None or self._checksums and not checksum.fits(
                method, error, message, source.trailing_metadata()):
            # The error may be gRPC's own, about a reply that gRPC rejected.
            text = "" if error is None else f" ({error.details()})"
            raise Failed("UNAVAILABLE", f"the reply to {method}{text} is damaged: its CRC-32 is not "
                         "the one that the server computed [TD4043]; hint: if this happens again, "
                         "check the memory and the network of both hosts, or use TLS")
        if error is not None:
            raise Failed(error.code().name, error.details())
        try:
            return METHODS[method][1].FromString(message)
        except google.protobuf.message.DecodeError:
            raise Failed("INTERNAL", f"the reply to {method} is no message of this call") from None

    def _introduce(self, started):
        """Makes a small call, because the connection may be new. If the server rejects the small
        call, its error for the large call states the reason."""
        small = Started("GetStatus", METHODS["GetStatus"][0](), started.deadline)
        small.retries = started.retries
        self._send(small)
        try:
            self.finish(small)
        except PserverError:
            pass

    def _open_session(self, started):
        """Opens a session. The server must prove that it holds the job's secret; otherwise the
        client sends no call to it."""
        while True:
            offer = self._session.offer()
            request = METHODS["OpenSession"][0](**offer)
            seconds = max(0.001, started.deadline - time.monotonic())
            try:
                reply = self._reply("OpenSession", self._begin("OpenSession", request, seconds))
                break
            except Failed as error:
                code, details = self._session.explain(started.code(error), started.explain(error))
                if not self._pause_before_retry(started, code):
                    raise PserverError(code, self.name, started.method, details) from None
        refused = self._session.accept(offer, reply)
        if refused is not None:
            raise PserverError("UNAUTHENTICATED", self.name, started.method, refused)


def _host(address):
    return address.rsplit(":", 1)[0].strip("[]")


def _is_loopback(address):
    if "|" in address:
        return all(_is_loopback(part) for part in address.split("|"))
    if address.startswith("unix:/") or _host(address) == "localhost":
        return True
    try:
        return ipaddress.ip_address(_host(address)).is_loopback
    except ValueError:  # a host name
        return False


def _check_own_socket(path, name):
    """Checks the owners of a Unix socket. Its directory must belong to this user or root, and no
    other user may write to it. In a directory for all users (/tmp), the socket itself must belong
    to this user or root. A missing file is no error."""
    folder, users = os.path.dirname(path), (os.geteuid(), 0)
    try:
        kind, found = "directory " + folder, os.stat(folder)
        others_write = found.st_mode & stat.S_IWOTH
        if others_write and found.st_uid == 0 and found.st_mode & stat.S_ISVTX:
            kind, found, others_write = "socket " + path, os.lstat(path), False
    except FileNotFoundError:
        return
    if found.st_uid not in users:
        why = f"belongs to user {found.st_uid}, expected {users[0]} or root"
    elif others_write:
        why = f"allows other users to write (mode {found.st_mode & 0o777:o})"
    else:
        return
    raise PserverError("PERMISSION_DENIED", name, "connect",
                       f"{kind} {why} [TD2113]; hint: put the server's socket into a "
                       "directory that other users cannot write")


def _dialled(address):
    """Maps "localhost" to 127.0.0.1, as servers do: [::1] may belong to another user."""
    return "127.0.0.1" + address[9:] if address.startswith("localhost:") else address


def _dial(address):
    if not address.startswith("unix:/"):
        host, port = _host(_dialled(address)), int(address.rsplit(":", 1)[1])
        return socket.create_connection((host, port), timeout=1.0)
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(1.0)
    try:
        plain.connect(address[5:])
    except OSError:
        plain.close()
        raise
    return plain


def _why_refused(address, tls):
    """gRPC reports all connection failures alike, so this connects once more to find the TLS error.
    None: not a TLS error."""
    if "|" in address:
        return None  # gRPC finds the address that answers
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(tls[2])
        context.load_cert_chain(tls[0], tls[1])
    try:
        with _dial(address) as plain, \
                context.wrap_socket(plain, server_hostname=_host(address)) as connection:
            if tls is None:
                return "the server uses TLS, but this client does not [TD6003]; hint: set tls=DIR"
            # Only a reply shows that the server accepted our certificate (TLS 1.3).
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4)) + bytes(5))
            if connection.recv(9):
                return None
            return (f"the server rejects certificate {tls[0]} [TD6007]; hint: use a certificate of "
                    "the server's authority")
    except ssl.SSLCertVerificationError as error:
        return f"this client rejects the server's certificate: {error.verify_message} [TD6005]"
    except ssl.SSLError as error:
        if tls is not None and error.reason == "WRONG_VERSION_NUMBER":
            return "the server does not use TLS, but this client does [TD6004]"
        return None
    except OSError:
        return None


def _read(path):
    with open(path, "rb") as file:
        return file.read()
