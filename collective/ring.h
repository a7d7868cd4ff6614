// The schedules: ring for large data, direct exchange for small data or few ranks. Pure functions
// of (rank, size, bytes).
//
// Order of reduction, which fixes the bits of the result:
// - direct: a binary tree over the ranks, as a parameter server sums: neighbours first, then pairs
//   of neighbours, ...: of six (((x_0 op x_1) op (x_2 op x_3)) op (x_4 op x_5)).
// - halving and doubling: the same tree.
// - ring: chunk c (of n, in element order, sizes differing by at most one element) is
//   ((x_c op x_{c+1}) op x_{c+2}) op ... op x_{c-1}, ranks modulo n; one rank computes it and all
//   others copy it.
// All give every rank the same bits; with two ranks all give x_0 + x_1 for sums. Between each op
// a 16-bit float is rounded to 16 bits. Source of the ring: Patarasuk and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", JPDC 2009: 2(n-1)/n of the bytes leave each
// rank, which is the lower bound.
#pragma once

#include "collective/schedule.h"

namespace tandem {

// Elements [n*c/size, ...) of chunk c, in bytes.
Range RingChunk(size_t count, size_t element_bytes, int size, int chunk);

// Over a buffer of `count` elements: afterwards rank r holds the result of chunk (r + 1) % size.
Schedule RingReduceScatter(int rank, int size, size_t count, size_t element_bytes);
// From there: everybody gets all chunks.
Schedule RingGatherChunks(int rank, int size, size_t count, size_t element_bytes);
// One behind the other.
Schedule RingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// Reduce-scatter as above, then every rank sends its chunk to `root`: the same bits.
Schedule RingReduce(int rank, int size, int root, size_t count, size_t element_bytes);
// Recursive halving, then doubling, nearest ranks first: the bits of the tree at the bytes of the
// ring, in 2 log2(size) steps. Ranks that are near each other carry most of the bytes. Source:
// Rabenseifner, "Optimization of collective reduction operations", ICCS 2004. For sizes that are no
// powers of two by blocks that are (7 = 4 + 2 + 1), which add their sums from the last to the
// first, with at most twice the bytes of the buffer from each rank. Source: "binary blocks" of
// Rabenseifner and Träff, "More efficient reduction algorithms for non-power-of-two number of
// processors in message-passing parallel systems", EuroPVM/MPI 2004.
Schedule HalvingDoublingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// Halving as above, then every rank sends its part to `root`: the same bits.
Schedule HalvingReduce(int rank, int size, int root, size_t count, size_t element_bytes);

// Over a buffer of size * bytes; the own part is in place before the start.
Schedule RingAllGather(int rank, int size, size_t bytes);
// root, root+1, ..., each passing on what arrives.
Schedule ChainBroadcast(int rank, int size, int root, size_t bytes);

// Two ranks: each sends everything and reduces what arrives, rank 0's value first.
Schedule PairAllReduce(int rank, size_t bytes);
Schedule PairReduce(int rank, int root, size_t bytes);
// Over a buffer of size * bytes (part r is rank r's): everybody to everybody, or to `root`.
Schedule DirectAllGather(int rank, int size, size_t bytes);
Schedule DirectGather(int rank, int size, int root, size_t bytes);
Schedule DirectBroadcast(int rank, int size, int root, size_t bytes);

// Dissemination barrier, ceil(log2 size) steps, over a buffer of one byte. Source: Hensgen, Finkel
// and Manber, "Two algorithms for barrier synchronization", 1988.
Schedule DisseminationBarrier(int rank, int size);

}  // namespace tandem
