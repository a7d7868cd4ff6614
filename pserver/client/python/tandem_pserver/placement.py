"""The owners of table rows and slices, as known to a client, by bucket. Buckets from ROW_BUCKETS on
are slices, one slice per bucket."""

import numpy

from .partition import ROW_BUCKETS, first_bucket, row_buckets


class Placement:
    """The initial placement by the trainers, updated with moves from servers (BucketMapDef)."""

    def __init__(self, servers):
        self.first_servers = servers
        self._owners = numpy.zeros(ROW_BUCKETS, numpy.int64)
        for i in range(servers):
            self._owners[first_bucket(i, servers):first_bucket(i + 1, servers)] = i
        self._epochs = numpy.zeros(ROW_BUCKETS, numpy.uint64)
        self._buckets = {}  # bucket of a slice, by variable and offset
        self._first = ROW_BUCKETS  # first bucket in use
        self._addresses = {}
        self.moved = False
        self.generations = {}  # by server: ExchangeMapReply.generation

    def place(self, blocks, tables):
        """Sets the slices of the job, and whether it has tables."""
        self._owners = numpy.append(self._owners, [block.server for block in blocks]).astype(int)
        self._epochs = numpy.append(self._epochs, numpy.zeros(len(blocks), numpy.uint64))
        for i, block in enumerate(blocks):
            self._buckets[block.variable, block.offset] = ROW_BUCKETS + i
        self._first = 0 if tables else ROW_BUCKETS

    def owners(self, ids):
        return self._owners[row_buckets(ids)]

    def bucket(self, variable, offset):
        return self._buckets[variable, offset]

    def slice_owner(self, variable, offset):
        return int(self._owners[self._buckets[variable, offset]])

    def owns(self, server):
        return bool((self._owners[self._first:] == server).any())

    def owns_rows(self, server):
        return self._first == 0 and bool((self._owners[:ROW_BUCKETS] == server).any())

    def run(self, bucket):
        """Returns the owner of this bucket, and the first later bucket with another owner."""
        owner = int(self._owners[bucket])
        others = numpy.nonzero(self._owners[bucket:ROW_BUCKETS] != owner)[0]
        return owner, bucket + int(others[0]) if others.size else ROW_BUCKETS

    def learn(self, server, known, generation, meet):
        """Applies the moves known to a server. meet(index, address): whether a server with this
        index exists; it adds a new server if possible."""
        self.generations[server] = max(self.generations.get(server, 0), generation)
        self._addresses.update((s.index, s.address) for s in known.server)
        for move in known.move:
            if move.bucket >= self._epochs.size or move.epoch <= self._epochs[move.bucket]:
                continue
            self.moved = True
            if meet(move.server, self._addresses.get(move.server)):
                self._owners[move.bucket] = move.server
                self._epochs[move.bucket] = move.epoch

    def tell(self, known):
        """Writes the known moves into `known`."""
        for bucket in numpy.nonzero(self._epochs)[0]:
            known.move.add(bucket=int(bucket), epoch=int(self._epochs[bucket]),
                           server=int(self._owners[bucket]))
        for index, address in self._addresses.items():
            known.server.add(index=index, address=address)
