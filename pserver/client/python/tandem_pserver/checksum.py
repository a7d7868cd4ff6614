"""Checksums of the messages of a call (common/rpc/message_checksum.h)."""

import zlib

METADATA = "x-tandem-crc32-bin"
# gRPC itself may end a call with these although a reply had arrived. Its status has no checksum.
OWN = ("CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")


def of_request(method, message):
    """Returns the value of the metadata for the bytes of a request."""
    return zlib.crc32(message, zlib.crc32(method.encode() + b"\0")).to_bytes(4, "little")


def fits(method, error, message, metadata):
    """Returns whether a reply has the checksum in its trailing metadata, or no checksum. `error`: of
    gRPC; None: the bytes `message` are the reply."""
    sent = next((value for key, value in metadata or () if key == METADATA), None)
    if sent is None or error is not None and error.code().name in OWN:
        return True
    if error is None:
        return sent == _of_reply(method, 0, b"", message)
    code, details = error.code().value[0], error.details() or ""
    # gRPC decodes bytes that are not UTF-8 as Latin-1.
    return any(sent == _of_reply(method, code, details.encode(encoding, "replace"), b"")
               for encoding in ("utf-8", "latin-1"))


def _of_reply(method, code, details, message):
    head = method.encode() + b"\0" + bytes([code]) + details + b"\0"
    return zlib.crc32(message, zlib.crc32(head)).to_bytes(4, "little")
