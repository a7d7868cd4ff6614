// A network that delays, loses, repeats and overtakes, and that can be cut.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "tests/sim/world.h"

namespace tandem {

// Nodes are numbers. Not thread-safe.
class SimNetwork {
 public:
  struct Habits {
    double lose = 0, repeat = 0, dawdle = 0;  // of a message; `dawdle`: it takes up to a second
  };
  SimNetwork(SimWorld& world, Habits habits) : world_(world), habits_(habits) {}

  // Calls `arrive` when a message has come from one node to the other: mostly once and soon, now
  // and then late, twice, or never. False: never. Nobody tells the sender.
  bool Carry(int from, int to, std::function<void()> arrive);
  // Nothing comes through between the two until then.
  void Cut(int a, int b, Time until);
  void Behave() { habits_ = {}; }

 private:
  SimWorld& world_;
  Habits habits_;
  std::map<std::pair<int, int>, Time> cut_until_;
};

}  // namespace tandem
