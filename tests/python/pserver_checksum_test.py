"""The checksums of messages of the Python client: damaged requests and replies are sent again."""

from pserver_case import F32, Test
import numpy
import script


def flipped(message, bit):
    changed = bytearray(message)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


class DamagedFuture:
    """A future whose result has a flipped bit. `bit` None: gRPC received no message."""

    def __init__(self, future, bit):
        self._future, self._bit = future, bit

    def __getattr__(self, name):
        return getattr(self._future, name)

    def result(self):
        message = self._future.result()
        return None if self._bit is None else flipped(message, self._bit % (8 * len(message)))


class Damaged:
    """A call of gRPC with a flipped bit in its first message."""

    def __init__(self, call, side, bit):
        self._call, self._side, self._bit, self.calls = call, side, bit, 0

    def future(self, message, **options):
        self.calls += 1
        first = self.calls == 1
        if first and self._side == "request":
            message = flipped(message, self._bit % (8 * len(message)))
        future = self._call.future(message, **options)
        if first and self._side == "reply":
            return DamagedFuture(future, self._bit)
        return future


class Checksums(Test):
    def _damage(self, client, method, side, bit):
        """Damages the next message of the method."""
        server = client._calls.servers[0]  # pylint: disable=protected-access
        calls = server._calls  # pylint: disable=protected-access
        calls[method] = Damaged(calls[method], side, bit)
        return calls[method]

    def test_a_damaged_push_counts_once(self):
        client = self.client(self.servers(1))
        client.configure({"v": (3,)}, mode="a_sync")
        params, one = {"v": numpy.zeros(3, F32)}, {"v": numpy.ones(3, F32)}
        client.init_or_fetch(params)
        kinds = [("request", bit) for bit in range(0, 800, 61)]
        kinds += [("reply", bit) for bit in range(0, 400, 61)] + [("reply", None)]
        for step, (side, bit) in enumerate(kinds):
            damaged = self._damage(client, "Push", side, bit)
            client.push_pull(step, 1.0, one, params)
            self.assertEqual(damaged.calls, 2, (side, bit))
            self.assert_same(params, {"v": numpy.full(3, -step - 1, F32)})

    def test_damaged_control_calls_are_sent_again(self):
        for side, methods in (("request", ("Configure", "InitParams")), ("reply", ("Configure",))):
            client = self.client(self.servers(1))
            damaged = [self._damage(client, method, side, 9) for method in methods]
            client.configure({"v": (3,)}, mode="a_sync")
            client.init_or_fetch({"v": numpy.zeros(3, F32)})
            self.assertEqual([each.calls for each in damaged], [2] * len(methods), side)

    def test_a_call_that_stays_damaged_fails_with_a_code(self):
        client = self.client(self.servers(1), retries=0)
        self._damage(client, "GetStatus", "reply", 9)
        self.fails("UNAVAILABLE", "[TD4043]", client.status)

    def test_a_unix_socket_has_no_checksums(self):
        client = self.client(self.servers(1))
        server = client._calls.servers[0]  # pylint: disable=protected-access
        self.assertTrue(server._checksums)  # pylint: disable=protected-access
        made = type(server)(0, "unix:/none", "job", "", None, 0)
        self.assertFalse(made._checksums)  # pylint: disable=protected-access


if __name__ == "__main__":
    script.main()
