"""Errors of servers and of connections to them."""


class PserverError(Exception):
    """`code`: the name of gRPC's status code ("NOT_FOUND"); `server`: its address. Servers count
    steps from 1: step 0 of a call is step 1 in their messages."""

    def __init__(self, code, server, method, message):
        # All fields are in `args`, because pickle recreates the error from them.
        super().__init__(code, server, method, message)
        self.code = code
        self.server = server
        self.method = method
        self.message = message

    def at_step(self, step):
        """Returns the same error with the step number that the caller of the push used."""
        message = f"step={step} of this call, step {step + 1} of the job: {self.message}"
        return PserverError(self.code, self.server, self.method, message)

    def __str__(self):
        return f"{self.server}: {self.method}: {self.code}: {self.message}"
