"""A TCP proxy in front of one server, which can cut, hold and delay each direction."""

import socket
import struct
import threading
import time

CHUNK = 1 << 16
OUT, IN = 0, 1  # towards the server, towards the client


class Proxy:
    """Listens on a free port until close. `target` may have no listener at times."""

    def __init__(self):
        self.target = None  # (host, port), once the server has one
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._flows = [threading.Event(), threading.Event()]
        self._delays = [0.0, 0.0]
        self._lock, self._open = threading.Lock(), set()
        self._cut = self._closed = False
        self.heal()
        threading.Thread(target=self._accept, daemon=True).start()

    def heal(self):
        """Ends all faults."""
        self._cut, self._delays = False, [0.0, 0.0]
        for flow in self._flows:
            flow.set()

    def cut(self):
        """Resets all connections, and each new one until `heal`."""
        self._cut = True
        with self._lock:
            for each in self._open:
                _reset(each)

    def hold(self, direction):
        """Lets nothing through in this direction until `heal`; then all bytes arrive."""
        self._flows[direction].clear()

    def delay(self, seconds):
        self._delays = [seconds, seconds]

    def passing(self, _direction, data):
        """The bytes that arrive in the place of `data`. A subclass may change them."""
        return data

    def close(self):
        self._closed = True
        self._listener.close()
        self.cut()
        for flow in self._flows:
            flow.set()

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        if self._cut or self.target is None:
            _reset(client)
            client.close()
            return
        try:
            server = socket.create_connection(self.target, timeout=5)
        except OSError:
            _reset(client)
            client.close()
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        back = threading.Thread(target=self._relay, args=(server, client, IN), daemon=True)
        back.start()
        self._relay(client, server, OUT)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _relay(self, source, sink, direction):
        try:
            while True:
                data = source.recv(CHUNK)
                if self._delays[direction]:
                    time.sleep(self._delays[direction])
                self._flows[direction].wait()
                if not data or self._cut:
                    break
                sink.sendall(self.passing(direction, data))
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _reset(connection):
    """Closes with RST; a thread that reads from the connection returns."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
