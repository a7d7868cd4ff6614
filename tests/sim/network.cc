#include "tests/sim/network.h"

#include <algorithm>

namespace tandem::pserver {

using std::chrono::microseconds;
using std::chrono::milliseconds;

bool SimNetwork::Carry(int from, int to, std::function<void()> arrive) {
  const auto delay = [this] {
    return world_.Chance(habits_.dawdle) ? world_.Between(milliseconds(1), milliseconds(1000))
                                         : world_.Between(microseconds(50), microseconds(800));
  };
  const auto cut = cut_until_.find({from, to});
  if (cut != cut_until_.end() && world_.Now() < cut->second) return false;
  if (world_.Chance(habits_.lose)) return false;
  if (world_.Chance(habits_.repeat)) world_.After(delay(), arrive);
  world_.After(delay(), std::move(arrive));
  return true;
}

void SimNetwork::Cut(int a, int b, Time until) {
  CutOneWay(a, b, until);
  CutOneWay(b, a, until);
}

void SimNetwork::CutOneWay(int from, int to, Time until) {
  Time& cut = cut_until_[{from, to}];
  cut = std::max(cut, until);
}

}  // namespace tandem::pserver
