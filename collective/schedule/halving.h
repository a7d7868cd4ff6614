// Schedules by recursive halving and doubling. The result has the bits of the tree of ring.h, and
// as many bytes are sent as in the ring. Pure functions of (rank, size, bytes).
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem::collective {

// An allreduce by recursive halving, then doubling, between the nearest ranks first. It has 2
// log2(size) schedule steps. Ranks that are near each other transfer most of the bytes. Source:
// Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
//
// If `size` is not a power of two, the ranks are divided into blocks whose sizes are powers of two
// (7 = 4 + 2 + 1). The blocks add their sums from the last block to the first. Each rank then sends
// at most twice the bytes of the buffer. Source: "binary blocks" of Rabenseifner and Träff, "More
// efficient reduction algorithms for non-power-of-two number of processors in message-passing
// parallel systems", EuroPVM/MPI 2004.
Schedule HalvingDoublingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// A reduce by recursive halving, as in HalvingDoublingAllReduce. Then every rank sends its part to
// `root`. The result has the same bits.
Schedule HalvingReduce(int rank, int size, int root, size_t count, size_t element_bytes);

}  // namespace tandem::collective
