// Schedules of the collectives: rings for large data, direct exchange for small data or few ranks.
// Pure functions of (rank, size, bytes).
//
// The order of reduction determines the bits of the result.
//   - tree (direct, and halving and doubling): a binary tree over the ranks. It reduces neighbours
//     first, then pairs of neighbours, and so on. A parameter server adds in the same order.
//     Example of six ranks: (((x_0 op x_1) op (x_2 op x_3)) op (x_4 op x_5)).
//   - ring: the buffer is divided into n chunks in element order. Their sizes differ by at most one
//     element. Chunk c is ((x_{c+1} op x_{c+2}) op x_{c+3}) op ... op x_c, with ranks modulo n.
//     Rank c computes chunk c, and all other ranks copy it.
// A reduce-scatter gives rank r the bits that an allreduce has in chunk r. Every algorithm gives
// all ranks the same bits. With two ranks, every algorithm computes the same sum, because addition
// is commutative. A 16-bit float is rounded to 16 bits after each op. Source of the ring: Patarasuk
// and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009. Each
// rank sends 2(n-1)/n of the bytes, which is the lower bound.
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem::collective {

// Returns the byte range of chunk `chunk`. The first count % size chunks have one element more.
Range RingChunk(size_t count, size_t element_bytes, int size, int chunk);

// A reduce-scatter on a buffer of `count` elements. Afterwards rank r has the result of chunk r;
// all other bytes of its buffer are undefined.
Schedule RingReduceScatter(int rank, int size, size_t count, size_t element_bytes);
// An all-gather after RingReduceScatter: all ranks get all chunks.
Schedule RingAllGather(int rank, int size, size_t count, size_t element_bytes);
// An allreduce: RingReduceScatter, then RingAllGather.
Schedule RingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// A reduce: RingReduceScatter, then every rank sends its chunk to rank `root`. The result has the
// same bits as RingAllReduce.
Schedule RingReduce(int rank, int size, int root, size_t count, size_t element_bytes);
// A broadcast through a chain of ranks root, root+1, ... Each rank forwards the bytes that it
// receives.
Schedule ChainBroadcast(int rank, int size, int root, size_t bytes);

// Allreduce and reduce of two ranks. A rank that needs the result receives all data of the other
// rank and reduces them. The value of rank 0 is the first operand.
Schedule PairAllReduce(int rank, size_t bytes);
Schedule PairReduce(int rank, int root, size_t bytes);
// All-gather, gather and broadcast in which each rank sends its data directly to each receiver. The
// buffer of a gather has size * bytes bytes, and part r is the data of rank r. The buffer of a
// broadcast has `bytes` bytes.
Schedule DirectAllGather(int rank, int size, size_t bytes);
Schedule DirectGather(int rank, int size, int root, size_t bytes);
Schedule DirectBroadcast(int rank, int size, int root, size_t bytes);
// An all-to-all in place. The buffer has size * bytes bytes. The schedule sends part p to rank p,
// and replaces part p by the part that rank p sent. In each schedule step a rank has at most one
// partner, so the sent bytes make room for the received bytes.
Schedule PairwiseAllToAll(int rank, int size, size_t bytes);
// Sends a buffer of `bytes` bytes to rank `to`, and replaces it by the buffer of rank `from`. `to`
// -1: the schedule does not send. `from` -1: the schedule does not receive.
Schedule PointToPoint(int to, int from, size_t bytes);

// A dissemination barrier of ceil(log2 size) schedule steps, with a buffer of one byte. Source:
// Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988.
Schedule DisseminationBarrier(int rank, int size);

}  // namespace tandem::collective
