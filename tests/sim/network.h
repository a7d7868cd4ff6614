// A simulated network. The network delays, loses, repeats and reorders messages. Tests can cut the
// connection of two nodes.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "tests/sim/world.h"

namespace tandem::pserver {

// A network between nodes, which are identified by numbers. Not thread-safe.
class SimNetwork {
 public:
  struct Habits {
    // Probabilities per message. lose: the message is lost; repeat: the message arrives twice;
    // dawdle: the message takes up to a second.
    double lose = 0, repeat = 0, dawdle = 0;
  };
  SimNetwork(SimWorld& world, Habits habits) : world_(world), habits_(habits) {}

  // Sends a message. Calls `arrive` when the message arrives at the other node: usually once and
  // soon, sometimes late, twice or never. Returns false if the message is lost. Callers may use
  // this result only to simulate a broken connection.
  bool Carry(int from, int to, std::function<void()> arrive);
  // Until the time `until`, drops all messages between the nodes `a` and `b`.
  void Cut(int a, int b, Time until);
  // Does the same for the messages from `from` to `to` only.
  void CutOneWay(int from, int to, Time until);
  void Behave() { habits_ = {}; }

 private:
  SimWorld& world_;
  Habits habits_;
  std::map<std::pair<int, int>, Time> cut_until_;  // by sender and receiver
};

}  // namespace tandem::pserver
