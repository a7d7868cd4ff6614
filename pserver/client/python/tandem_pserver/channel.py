"""One server: its channel, calls with deadlines, and what a failure is called."""

import hashlib
import hmac
import os
import socket
import ssl
import time

import grpc

from .errors import PserverError
from .messages import METHODS

# The server answers in time with a better message than "deadline exceeded"; then it may.
GRACE_SECONDS = 2.0


def job_token(secret, job):
    """What proves on a plain connection that a caller belongs to the job."""
    return hmac.new(secret.encode(), job.encode(), hashlib.sha256).hexdigest() if secret else ""


class Started:
    """A call that is under way."""

    def __init__(self, method, request, deadline):
        self.method, self.request, self.deadline = method, request, deadline
        self.future, self.retries = None, 0
        self.pause = 0.001  # before it is sent again to a server that wants others first
        self._begin = time.monotonic()

    def explain(self, error):
        """A server's own message, or what gRPC found by itself."""
        if (error.code() != grpc.StatusCode.DEADLINE_EXCEEDED
                or error.details() != "Deadline Exceeded"):
            return error.details()
        return (f"the server did not answer for {time.monotonic() - self._begin:.1f} s [TD4025]; "
                "hint: start it again at this address, or raise step_timeout (start_timeout before "
                "the first step)")


class Server:
    """Not for several threads at a time. `tls`: (certificate, key, ca), names of PEM files, or the
    folder of tls.crt, tls.key and ca.crt."""

    def __init__(self, index, address, token, tls, retries):
        self.address = address
        self.name = f"pserver {index} ({address})"
        self._metadata = (("x-tandem-token", token),) if token else ()
        self._retries = retries
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                   # A server that comes back is found within a second.
                   ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.min_reconnect_backoff_ms", 100),
                   ("grpc.max_reconnect_backoff_ms", 1000)]
        if isinstance(tls, (str, os.PathLike)):
            tls = tuple(os.path.join(tls, name) for name in ("tls.crt", "tls.key", "ca.crt"))
        self._tls = tls
        if tls is None:
            self._channel = grpc.insecure_channel(address, options)
        else:
            certificate, key, ca = (_read(path) for path in tls)
            credentials = grpc.ssl_channel_credentials(ca, key, certificate)
            self._channel = grpc.secure_channel(address, credentials, options)
        self._calls = {
            name: self._channel.unary_unary(
                "/tandem.ParameterServer/" + name,
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString)
            for name, (request, reply) in METHODS.items()}
        self.sequence = 0  # of pushes

    def wait(self, seconds):
        """Until it answers; PserverError otherwise, at once where waiting does not help."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            # Tries to connect once: a channel whose try failed rests until it is told again.
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
                                       f"did not answer for {seconds:g} s: is it running, is the "
                                       "address right? [TD4001]") from None

    def start(self, method, request, seconds):
        """Sends the request and gives the call that is under way."""
        started = Started(method, request, time.monotonic() + seconds + GRACE_SECONDS)
        self.again(started)
        return started

    def take(self, started):
        """The reply to a call that ended, once its `future` is waited for; None: its connection
        broke, and it was sent again."""
        try:
            return started.future.result()
        except grpc.RpcError as error:
            last = started.retries == 0 or time.monotonic() >= started.deadline
            if error.code() != grpc.StatusCode.UNAVAILABLE or last:
                raise PserverError(error.code().name, self.name, started.method,
                                   started.explain(error)) from None
        started.retries -= 1
        self._send(started)
        return None

    def again(self, started):
        """The same call once more, by the same deadline."""
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
        seconds = max(0.001, started.deadline - time.monotonic())
        started.future = self._calls[started.method].future(
            started.request, timeout=seconds, metadata=self._metadata, wait_for_ready=True)


def _why_refused(address, tls):
    """gRPC calls every failure the same, so this dials once more. None: no TLS matter."""
    host, port = address.rsplit(":", 1)
    host = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(tls[2])
        context.load_cert_chain(tls[0], tls[1])
    try:
        with socket.create_connection((host, int(port)), timeout=1.0) as plain, \
                context.wrap_socket(plain, server_hostname=host) as connection:
            if tls is None:
                return "the server speaks TLS, and this client does not: give tls=FOLDER"
            # With TLS 1.3 only an answer shows that our certificate was accepted.
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4)) + bytes(5))
            if connection.recv(9):
                return None
            return f"the server does not accept certificate {tls[0]}: is it of the same authority?"
    except ssl.SSLCertVerificationError as error:
        return f"the server's certificate is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        if tls is not None and error.reason == "WRONG_VERSION_NUMBER":
            return "the server does not speak TLS, and this client does"
        return None
    except OSError:
        return None


def _read(path):
    with open(path, "rb") as file:
        return file.read()
