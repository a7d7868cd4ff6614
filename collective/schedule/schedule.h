// A collective as data: the list of schedule steps of one rank. The runner (schedule_runner.h), the
// tests and the cost model read the same schedules.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/status.h"

namespace tandem::collective {

// Bytes [begin, end) of the schedule's buffer.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

enum class Land : uint8_t {
  kStore,            // received bytes replace the bytes of the buffer
  kReduceInFirst,    // buffer = received op buffer
  kReduceHereFirst,  // buffer = buffer op received
};

// One schedule step: send `send` to rank `send_to` and receive `recv` from rank `recv_from` (-1: no
// such half). The halves of all schedule steps form two ordered lists, and a half runs as soon as
// its bytes allow. Bytes are sent only after all receives of them in earlier schedule steps have
// landed. They are overwritten only after all sends of them in this and earlier schedule steps have
// gone out. So schedule steps overlap (segment pipelining) without a segment size in the schedule.
struct Step {
  int send_to = -1;
  Range send;
  int recv_from = -1;
  Range recv;
  Land land = Land::kStore;
};
using Schedule = std::vector<Step>;

}  // namespace tandem::collective
