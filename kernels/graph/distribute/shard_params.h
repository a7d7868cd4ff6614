// The knob `sharding`: a rank stores only the parameters that it owns. The rank receives the other
// parameters by broadcasts, as temporaries, once for forward and once for backward. Received
// parameters stay in memory only while operators use them. Together with gradients and updates by
// owner (update_by_owner.h) this is stage 3 of ZeRO (Rajbhandari et al., SC 2020). The segments are
// those of Paddle 2.0's sharding optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "kernels/graph/program.h"

namespace tandem::graph {

// Maps the name of a parameter to the rank of its owner.
using ParamOwners = std::map<std::string, int>;

// Assigns the parameters of the forward program `program` to `ranks` owners. Each owner gets a run
// of parameters, in the order in which operators first read them. The largest run has as few bytes
// as possible. No run is empty if there are at least as many parameters as ranks. The result is the
// same on every rank.
ParamOwners OwnersInOrder(const Program& program, int ranks);

struct ShardRule {
  int rank = 0;   // rank within its group
  int group = 0;  // number of ranks that together store all parameters; 0: all ranks form one group
  ParamOwners owners;  // rank within its group that owns each parameter; equal in all groups
  // The largest number of bytes in one broadcast. A single parameter may be larger.
  int64_t segment_bytes = 0;
};

struct ShardedParams {
  int64_t forward = 0, backward = 0;  // number of broadcasts inserted into forward and backward
};

// Makes the parameters of other ranks kRemote. Operators instead read the variables "w@FORWARD" and
// "w@BACKWARD", which c_broadcast_params operators write. There is one broadcast per segment:
// parameters of one owner in the order of first use. The broadcast starts before the first operator
// that uses the preceding segment, so that it overlaps with the computation of that segment. If
// forward computes a value only from parameters (casts, reordered weights), backward computes this
// value again. The programs of the ranks differ only in the memory that they use. REQUIRES: no pass
// changes the program later.
StatusOr<ShardedParams> ShardParams(Program& program, const ShardRule& rule);

// Returns the temporaries of `program` that hold received parameters of other ranks.
std::set<std::string> PassingParams(const Program& program);

}  // namespace tandem::graph
