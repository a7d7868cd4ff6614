// What a trainer's calls tell of its pservers, as events of a timeline (step_profile.h): the calls,
// the updates that they waited for, and arrows push -> update -> pull.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"

namespace tandem {

// What is to be added to a server's clock to have this process's, in microseconds: no call came
// before it left, and no answer before it was given, so it is at least `low` and at most `high`.
struct ClockBounds {
  int64_t low = INT64_MIN, high = INT64_MAX;
  double middle() const { return (static_cast<double>(low) + static_cast<double>(high)) / 2; }
};
// By server.
std::map<int, ClockBounds> ServerClocks(const std::vector<PsCall>& calls);

// A way of a gradient: sent by call `push`, part of the newest update that `update` tells of, and
// back as parameters in the answer to `pull`. Indices of calls.
struct GradientFlow {
  size_t push = 0, update = 0, pull = 0;
};

// Of every push whose parameters came back. `calls` in any order.
std::vector<GradientFlow> GradientWays(const std::vector<PsCall>& calls);

// For each call the number of a lane of its server, so that no two in a lane overlap.
std::vector<int> CallLanes(const std::vector<PsCall>& calls);

}  // namespace tandem
