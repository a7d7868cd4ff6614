// Schedules of the collectives: rings for large data, direct exchange for small data or few ranks.
// Pure functions of (rank, size, bytes).
//
// The order of reduction determines the bits of the result.
//   - direct: a binary tree over the ranks, as a parameter server sums: first neighbours, then
//   pairs
//     of neighbours, and so on. Six ranks: (((x_0 op x_1) op (x_2 op x_3)) op (x_4 op x_5)).
//   - halving and doubling: the same tree.
//   - ring: chunk c (of n, in element order, sizes differ by at most one element) is
//     ((x_{c+1} op x_{c+2}) op x_{c+3}) op ... op x_c, ranks modulo n. Rank c computes it and all
//     others copy it.
// A reduce-scatter gives rank r the bits that an allreduce has in chunk r. Every algorithm gives
// all ranks the same bits. With two ranks every algorithm computes x_0 + x_1 for sums. A 16-bit
// float is rounded to 16 bits after each op. Source of the ring: Patarasuk and Yuan, "Bandwidth
// optimal all-reduce algorithms for clusters of workstations", JPDC 2009. Each rank sends 2(n-1)/n
// of the bytes, which is the lower bound.
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem::collective {

// The byte range of chunk `chunk`. The first count % size chunks have one element more than the
// others.
Range RingChunk(size_t count, size_t element_bytes, int size, int chunk);

// Works on a buffer of `count` elements. Afterwards rank r holds the result of chunk r; the rest of
// its buffer is undefined.
Schedule RingReduceScatter(int rank, int size, size_t count, size_t element_bytes);
// Continues after RingReduceScatter: all ranks get all chunks.
Schedule RingAllGather(int rank, int size, size_t count, size_t element_bytes);
// RingReduceScatter, then RingAllGather.
Schedule RingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// Reduce-scatter as above, then every rank sends its chunk to `root`. Same bits.
Schedule RingReduce(int rank, int size, int root, size_t count, size_t element_bytes);
// A chain root, root+1, ...: each rank forwards the bytes that it receives.
Schedule ChainBroadcast(int rank, int size, int root, size_t bytes);

// For two ranks: each sends everything and reduces the received data, rank 0's value first.
Schedule PairAllReduce(int rank, size_t bytes);
Schedule PairReduce(int rank, int root, size_t bytes);
// Work on a buffer of size * bytes (part r is rank r's): from all ranks to all ranks, or to `root`.
Schedule DirectAllGather(int rank, int size, size_t bytes);
Schedule DirectGather(int rank, int size, int root, size_t bytes);
Schedule DirectBroadcast(int rank, int size, int root, size_t bytes);
// Works on a buffer of size * bytes: sends part p to rank p and replaces it with the part that rank
// p sent. In each schedule step every rank has at most one partner, so the sent bytes make room for
// the received bytes.
Schedule PairwiseAllToAll(int rank, int size, size_t bytes);
// Works on a buffer of `bytes`: sends it to rank `to` and replaces it with the buffer of rank
// `from`. -1: this half does not exist.
Schedule PointToPoint(int to, int from, size_t bytes);

// Dissemination barrier of ceil(log2 size) schedule steps, over a buffer of one byte. Source:
// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
Schedule DisseminationBarrier(int rank, int size);

}  // namespace tandem::collective
