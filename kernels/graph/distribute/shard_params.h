// The knob `sharding`: a rank stores only the parameters that it owns. Broadcasts bring the other
// parameters as temporaries, once for forward and once for backward, and only while operators use
// them. Together with gradients and updates by owner (update_by_owner.h) this is stage 3 of ZeRO
// (Rajbhandari et al., SC 2020). The segments are those of Paddle 2.0's sharding optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "kernels/graph/program.h"

namespace tandem {

// Maps a parameter to its owner's rank.
using ParamOwners = std::map<std::string, int>;

// Partitions the parameters of the forward program `program` into `ranks` runs, in the order in
// which operators first read them. The largest run has the fewest bytes possible. No run is empty
// if there are at least as many parameters as ranks. The result is the same on every rank.
ParamOwners OwnersInOrder(const Program& program, int ranks);

struct ShardRule {
  int rank = 0;               // in its group
  int group = 0;              // ranks per group with all parameters; 0: one group of all ranks
  ParamOwners owners;         // of all parameters, the same in each group
  int64_t segment_bytes = 0;  // of parameters broadcast together; one parameter may be larger
};

struct ShardedParams {
  int64_t forward = 0, backward = 0;  // broadcasts inserted
};

// Makes the parameters of other ranks kRemote. Operators read "w@FORWARD" or "w@BACKWARD" instead.
// One c_broadcast_params per segment writes these; a segment is parameters of one owner in the
// order of first use. The broadcast starts before the first operator that uses the preceding
// segment, so that it overlaps with that computation. Values that forward computes only from
// parameters (casts, reordered weights) are computed again for backward. The ranks' programs differ
// only in the memory that they use. REQUIRES: no pass changes the program later.
StatusOr<ShardedParams> ShardParams(Program& program, const ShardRule& rule);

// Returns the temporaries of `program` that hold parameters of other ranks while they are used.
std::set<std::string> PassingParams(const Program& program);

}  // namespace tandem
