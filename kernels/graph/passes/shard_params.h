// sharding: a rank keeps the parameters that it owns. All others it has only while operators use
// them: broadcasts bring them, once for forward and once more for backward, as temporaries. With
// gradients and updates by owner (update_by_owner.h) that is stage 3 of ZeRO (Rajbhandari et al.,
// SC 2020); the segments are those of Paddle 2.0's sharding optimizer.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "kernels/graph/program.h"

namespace tandem {

// Parameter -> rank.
using ParamOwners = std::map<std::string, int>;

// The parameters of the forward program `program` in the order in which operators first read them,
// cut into `ranks` runs of which the largest has as few bytes as any cut allows. No run is empty
// where there are as many parameters as ranks. The same on every rank.
ParamOwners OwnersInOrder(const Program& program, int ranks);

struct ShardRule {
  int rank = 0;               // in its group
  int group = 0;              // ranks of a group, of which each has all parameters; 0: one of all
  ParamOwners owners;         // of all parameters, in each group
  int64_t segment_bytes = 0;  // of parameters that are broadcast together; one may be larger
};

struct ShardedParams {
  int64_t forward = 0, backward = 0;  // broadcasts that were put in
};

// Parameters of other ranks become kRemote, and operators read "w@FORWARD" or "w@BACKWARD" instead,
// which a c_broadcast_params per segment writes: parameters of one owner, in the order of their
// first use. It is started before the first operator that uses the segment before, so that it comes
// while that is computed. What forward computes of parameters alone (casts, reordered weights) is
// computed again for backward. Ranks differ in nothing but whose memory is used. REQUIRES: the last
// change of the program.
StatusOr<ShardedParams> ShardParams(Program& program, const ShardRule& rule);

// The temporaries of `program` that hold other ranks' parameters while they are used.
std::set<std::string> PassingParams(const Program& program);

}  // namespace tandem
