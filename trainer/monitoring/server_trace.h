// Derives events of pservers from a trainer's calls, for a timeline (step_profile.h): the calls,
// the updates for which the calls waited, and arrows push -> update -> pull.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"

namespace tandem::trainer {

// Bounds of the offset between two clocks, in microseconds: the time of a server's clock plus the
// offset is the time of this process's clock. The offset is at least `low` and at most `high`,
// because calls and replies arrive after they were sent.
struct ClockBounds {
  int64_t low = INT64_MIN, high = INT64_MAX;
  double middle() const { return (static_cast<double>(low) + static_cast<double>(high)) / 2; }
};
// Returns the clock bounds of each server.
std::map<int, ClockBounds> ServerClocks(const std::vector<ps::PsCall>& calls);

// The calls that transport one gradient and the resulting parameters, as indices into a list of
// calls. `push`: the call that sent the gradient. `update`: the first call whose reply reports an
// update that began after the server had received the push. `pull`: the first such call whose reply
// also has the new parameters.
struct GradientFlow {
  size_t push = 0, update = 0, pull = 0;
};

// Returns the flow of every push for which a later reply has the new parameters. `calls` may be in
// any order.
std::vector<GradientFlow> GradientWays(const std::vector<ps::PsCall>& calls);

// Assigns each call to a track of its server, such that the calls in a track do not overlap.
// Returns the track numbers.
std::vector<int> CallTracks(const std::vector<ps::PsCall>& calls);

}  // namespace tandem::trainer
