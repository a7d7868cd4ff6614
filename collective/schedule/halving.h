// Schedules by recursive halving and doubling. The result has the same bits as the tree of ring.h.
// In an allreduce among 2^k ranks, each rank sends as many bytes as in the ring. All functions are
// pure.
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem::collective {

// An allreduce by recursive halving, then recursive doubling. Halving begins between the nearest
// ranks, so near ranks transfer most of the bytes. If `size` is a power of two, the schedule has 2
// log2(size) steps. Source: Rabenseifner, "Optimization of collective reduction operations", ICCS
// 2004.
//
// If `size` is not a power of two, the ranks are divided into blocks whose sizes are powers of two
// (7 = 4 + 2 + 1). The results of the blocks are reduced from the last block to the first. Each
// rank sends at most twice the bytes of the buffer. Source: "binary blocks" of Rabenseifner and
// Träff, "More efficient reduction algorithms for non-power-of-two number of processors in
// message-passing parallel systems", EuroPVM/MPI 2004.
Schedule HalvingDoublingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// A reduce by recursive halving, as in HalvingDoublingAllReduce. Then every rank of the first block
// sends its part to `root`. The result has the same bits as that of HalvingDoublingAllReduce.
Schedule HalvingReduce(int rank, int size, int root, size_t count, size_t element_bytes);

}  // namespace tandem::collective
