// The schedules: ring for large data, direct exchange for small data or few ranks. Pure functions
// of (rank, size, bytes).
//
// Order of reduction, which fixes the bits of the result:
// - direct: a binary tree over the ranks, as a parameter server sums: neighbours first, then pairs
//   of neighbours, ...: of six (((x_0 op x_1) op (x_2 op x_3)) op (x_4 op x_5)).
// - halving and doubling: the same tree.
// - ring: chunk c (of n, in element order, sizes differing by at most one element) is
//   ((x_{c+1} op x_{c+2}) op x_{c+3}) op ... op x_c, ranks modulo n; rank c computes it and all
//   others copy it.
// A reduce-scatter gives rank r the bits that an allreduce has in chunk r. All give every rank the
// same bits; with two ranks all give x_0 + x_1 for sums. Between each op a 16-bit float is rounded
// to 16 bits. Source of the ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", JPDC 2009: 2(n-1)/n of the bytes leave each rank, which is the lower
// bound.
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem {

// Elements [n*c/size, ...) of chunk c, in bytes.
Range RingChunk(size_t count, size_t element_bytes, int size, int chunk);

// Over a buffer of `count` elements: afterwards rank r holds the result of chunk r; what the rest
// holds is undefined.
Schedule RingReduceScatter(int rank, int size, size_t count, size_t element_bytes);
// From there: everybody gets all chunks.
Schedule RingAllGather(int rank, int size, size_t count, size_t element_bytes);
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

// root, root+1, ..., each passing on what arrives.
Schedule ChainBroadcast(int rank, int size, int root, size_t bytes);

// Two ranks: each sends everything and reduces what arrives, rank 0's value first.
Schedule PairAllReduce(int rank, size_t bytes);
Schedule PairReduce(int rank, int root, size_t bytes);
// Over a buffer of size * bytes (part r is rank r's): everybody to everybody, or to `root`.
Schedule DirectAllGather(int rank, int size, size_t bytes);
Schedule DirectGather(int rank, int size, int root, size_t bytes);
Schedule DirectBroadcast(int rank, int size, int root, size_t bytes);
// Over a buffer of size * bytes: part p goes to rank p, and what rank p gave is there instead. In
// each step every rank has one partner (or none), so that what leaves makes room for what comes.
Schedule PairwiseAllToAll(int rank, int size, size_t bytes);
// Over a buffer of `bytes`, which goes to rank `to`, and in place of which comes that of rank
// `from`; -1: that half is not there.
Schedule PointToPoint(int to, int from, size_t bytes);

// Dissemination barrier, ceil(log2 size) steps, over a buffer of one byte. Source: Hensgen, Finkel
// and Manber, "Two algorithms for barrier synchronization", 1988.
Schedule DisseminationBarrier(int rank, int size);

}  // namespace tandem
