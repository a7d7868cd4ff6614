"""What goes wrong on a server or on the way to it."""


class PserverError(Exception):
    """`code`: the name of gRPC's status code ("NOT_FOUND"); `server`: its address. Messages count steps
    from 1, as people do: step 0 of a call is step 1."""

    def __init__(self, code, server, method, message):
        # All of them are `args`: pickle, which carries errors between processes, makes it of these.
        super().__init__(code, server, method, message)
        self.code = code
        self.server = server
        self.method = method
        self.message = message

    def __str__(self):
        return f"{self.server}: {self.method}: {self.code}: {self.message}"
