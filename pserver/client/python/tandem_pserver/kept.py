"""Keeps a client's pushes to servers that log only the order of pushes (durability=replayable).
Until a checkpoint contains a push, its server may request it again."""


class KeptPushes:
    def __init__(self, bytes_max):
        self.bytes_max = bytes_max
        self.bytes = 0
        # By server, then by sequence: [request, bytes, log number]. A checkpoint that contains the
        # server's log up to the log number contains the push; None: the number is not known yet.
        self._pushes = {}
        self._checkpointed = {}  # by server: log number up to which its checkpoint has the log
        # By server: list of (sequence of a doubtful push, highest kept sequence at that time).
        self._doubts = {}

    def keep(self, server, request):
        size = request.ByteSize()
        self._pushes.setdefault(server, {})[request.sequence] = [request, size, None]
        self.bytes += size

    def drop(self, server, sequence):
        """Removes a push that the server never accepted or no longer needs."""
        self.bytes -= self._pushes[server].pop(sequence)[1]

    def doubtful(self, server, sequence):
        """Notes that it is unknown whether the server accepted the push. Gives the push the log
        number of the next push that begins after this call and is accepted."""
        pushes = self._pushes.get(server, {})
        if sequence in pushes:
            self._doubts.setdefault(server, []).append((sequence, max(pushes)))

    def answered(self, server, sequence, log_number):
        known = [old for old, newest in self._doubts.get(server, []) if newest < sequence]
        self._doubts[server] = [d for d in self._doubts.get(server, []) if d[1] >= sequence]
        for one in known + [sequence]:
            push = self._pushes.get(server, {}).get(one)
            if push is not None:
                push[2] = log_number if push[2] is None else min(push[2], log_number)
        self.checkpointed(server, self._checkpointed.get(server, 0))

    def checkpointed(self, server, number):
        self._checkpointed[server] = max(number, self._checkpointed.get(server, 0))
        for sequence, (_, _, log_number) in list(self._pushes.get(server, {}).items()):
            if log_number is not None and log_number <= number:
                self.drop(server, sequence)

    def of(self, server):
        """Yields all kept pushes of this server in order, without their pulls."""
        for sequence in sorted(self._pushes.get(server, {})):
            again = type(self._pushes[server][sequence][0])()
            again.CopyFrom(self._pushes[server][sequence][0])
            again.ClearField("pull")
            yield again

    def newest(self):
        """Returns, by server, the highest log number of its kept pushes."""
        numbers = {server: [p[2] for p in pushes.values() if p[2] is not None]
                   for server, pushes in self._pushes.items()}
        return {server: max(told) for server, told in numbers.items() if told}
