// A collective as data: the table of steps that one rank does. The runner (schedule_runner.h),
// tests and any cost model read the same tables.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Bytes [begin, end) of the buffer that the schedule works on.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

enum class Land : uint8_t {
  kStore,            // what arrives replaces what is there
  kReduceInFirst,    // there = arrived op there
  kReduceHereFirst,  // there = there op arrived
};

// One step: send `send` to rank `send_to` and receive `recv` from rank `recv_from` (-1: no such
// half). The halves of all steps are two ordered lists; a half runs as soon as its bytes allow:
// bytes are sent only after all earlier steps' receives of them have landed, and are overwritten
// only after all sends of them in this and earlier steps have gone out. So steps overlap (segment
// pipelining) with no segment size in the table.
struct Step {
  int send_to = -1;
  Range send;
  int recv_from = -1;
  Range recv;
  Land land = Land::kStore;
};
using Schedule = std::vector<Step>;

}  // namespace tandem
