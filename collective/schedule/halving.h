// Recursive halving and doubling: the tree of ring.h with as many bytes as the ring. Pure functions
// of (rank, size, bytes).
#pragma once

#include "collective/schedule/schedule.h"

namespace tandem::collective {

// Recursive halving, then doubling, nearest ranks first. Gives the bits of the tree with as many
// bytes as the ring, in 2 log2(size) schedule steps. Ranks that are near each other transfer most
// of the bytes. Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
//
// Other sizes than powers of two are divided into blocks of such sizes (7 = 4 + 2 + 1). The blocks
// add their sums from the last block to the first. Each rank then sends at most twice the bytes of
// the buffer. Source: "binary blocks" of Rabenseifner and Träff, "More efficient reduction
// algorithms for non-power-of-two number of processors in message-passing parallel systems",
// EuroPVM/MPI 2004.
Schedule HalvingDoublingAllReduce(int rank, int size, size_t count, size_t element_bytes);
// Halving as above, then every rank sends its part to `root`. Same bits.
Schedule HalvingReduce(int rank, int size, int root, size_t count, size_t element_bytes);

}  // namespace tandem::collective
