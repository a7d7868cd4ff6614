// A network that delays, loses, repeats and reorders messages and that can be partitioned.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "tests/sim/world.h"

namespace tandem::pserver {

// Nodes are numbers. Not thread-safe.
class SimNetwork {
 public:
  struct Habits {
    double lose = 0, repeat = 0, dawdle = 0;  // per message; `dawdle`: it takes up to a second
  };
  SimNetwork(SimWorld& world, Habits habits) : world_(world), habits_(habits) {}

  // Calls `arrive` when the message arrives at the other node: usually once and soon, sometimes
  // late, twice or never. Returns false if the message is lost; the sender must not be told.
  bool Carry(int from, int to, std::function<void()> arrive);
  // Drops all messages between the two nodes until `until`.
  void Cut(int a, int b, Time until);
  void Behave() { habits_ = {}; }

 private:
  SimWorld& world_;
  Habits habits_;
  std::map<std::pair<int, int>, Time> cut_until_;
};

}  // namespace tandem::pserver
