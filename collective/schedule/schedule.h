// The schedule of a collective: a list of steps for each rank. The runner (schedule_runner.h), the
// tests and the cost model use the same schedules.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/status.h"

namespace tandem::collective {

// The bytes [begin, end) of a schedule's buffer.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
};

// The action of a schedule step on received bytes.
enum class Land : uint8_t {
  kStore,  // the received bytes replace the bytes in the buffer
  // Reduces with the received value as the first operand: buffer = received op buffer.
  kReduceInFirst,
  // Reduces with the buffer's value as the first operand: buffer = buffer op received.
  kReduceHereFirst,
};

// One schedule step. It sends the range `send` to rank `send_to`, and receives the range `recv`
// from rank `recv_from`. A rank of -1 means that the step does not send, or does not receive. The
// sends of all schedule steps run in order, and so do the receives. A send or receive runs as soon
// as two rules allow it. First, bytes are sent only after all receives of these bytes in earlier
// schedule steps have landed. Second, bytes are overwritten only after all sends of these bytes in
// this step and earlier steps are complete. These rules let schedule steps overlap (segment
// pipelining) without a segment size in the schedule.
struct Step {
  int send_to = -1;
  Range send;
  int recv_from = -1;
  Range recv;
  Land land = Land::kStore;
};
using Schedule = std::vector<Step>;

}  // namespace tandem::collective
