// Derives events of pservers from a trainer's calls, for a timeline (step_profile.h): the calls,
// the updates that they waited for, and arrows push -> update -> pull.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"

namespace tandem::trainer {

// The offset to add to a server's clock to get this process's clock, in microseconds. A call cannot
// arrive before it was sent, and a reply cannot arrive before it was sent. The offset is therefore
// at least `low` and at most `high`.
struct ClockBounds {
  int64_t low = INT64_MIN, high = INT64_MAX;
  double middle() const { return (static_cast<double>(low) + static_cast<double>(high)) / 2; }
};
// The bounds by server.
std::map<int, ClockBounds> ServerClocks(const std::vector<ps::PsCall>& calls);

// The path of a gradient, as indices of calls. Call `push` sent it, the newest update that `update`
// reports contains it, and the reply to `pull` returned the new parameters.
struct GradientFlow {
  size_t push = 0, update = 0, pull = 0;
};

// The path of every push with returned parameters. `calls` may be in any order.
std::vector<GradientFlow> GradientWays(const std::vector<ps::PsCall>& calls);

// For each call the number of a track of its server, so that calls in one track do not overlap.
std::vector<int> CallTracks(const std::vector<ps::PsCall>& calls);

}  // namespace tandem::trainer
