"""What goes wrong on a server or on the way to it."""


class PserverError(Exception):
    """`code`: the name of gRPC's status code ("NOT_FOUND"); `server`: its address."""

    def __init__(self, code, server, method, message):
        super().__init__(f"{server}: {method}: {code}: {message}")
        self.code = code
        self.server = server
        self.method = method
        self.message = message
