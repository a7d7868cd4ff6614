"""The sessions of one client with one server, one after another (proto/pserver.proto, OpenSession)."""

import hashlib
import hmac
import secrets

NONCE_BYTES = 32
METADATA = "x-tandem-session-bin"
LABEL = b"tandem session 1 "


def _hmac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


class Session:
    """Not thread-safe. `secret`: the job's secret, not empty."""

    def __init__(self, secret, job, address):
        self._secret, self._job, self._address = secret.encode(), job, address
        self._id, self._key, self._counter = b"", b"", 0

    @property
    def id(self):
        """Returns the id of the open session; empty: no session is open."""
        return self._id

    def stamp(self, method):
        """Returns the metadata for the next call of the method."""
        self._counter += 1
        counter = self._counter.to_bytes(8, "big")
        proof = _hmac(self._key, LABEL + b"call\0" + counter + method.encode())
        return ((METADATA, self._id + counter + proof),)

    def offer(self):
        """Returns the fields of an OpenSessionRequest."""
        return {"job": self._job, "nonce": secrets.token_bytes(NONCE_BYTES)}

    def accept(self, offer, reply):
        """Returns None, or the reason why the client must not call this server."""
        terms = offer["nonce"] + reply.nonce + reply.session + self._job.encode()
        sizes = len(reply.nonce) == NONCE_BYTES and len(reply.session) == 16
        proof = _hmac(self._secret, LABEL + b"server\0" + terms)
        if not sizes or not hmac.compare_digest(proof, reply.proof):
            return (f'the program that listens on {self._address} does not have the secret of job '
                    f'"{self._job}" [TD6020]; hint: use the same secret on both sides, and check '
                    "which program uses the port")
        self._id, self._key = reply.session, _hmac(self._secret, LABEL + b"key\0" + terms)
        self._counter = 0
        return None

    def explain(self, code, details):
        """Returns code and message for a server that rejected an offer."""
        if code != "UNIMPLEMENTED":
            return code, details
        return "FAILED_PRECONDITION", (
            f"the program that listens on {self._address} has no call OpenSession, so it is an "
            "earlier version or not a pserver [TD6022]; hint: run the same version of Tandem on "
            "both sides")

    def forget(self, session):
        """Drops a session that the server does not know."""
        if self._id == session:
            self._id = b""


def was_lost(code, details):
    """Returns whether an error means that a new session must be opened."""
    return code == "UNAUTHENTICATED" and "[TD6021]" in (details or "")
