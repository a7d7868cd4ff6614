// Runs the schedules of collectives over a transport.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/schedule/schedule.h"
#include "collective/schedule/schedule_cursor.h"
#include "collective/transport/message.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

// Runs schedules, one after another. Not thread-safe: for one thread. Only the constructor
// allocates memory.
class ScheduleRunner {
 public:
  // `transport` is not owned and must outlive this object. The runner receives data to be reduced
  // in pieces of at most `piece_bytes_max` bytes (>= 8). It reduces a piece while the piece is in
  // the cache and the next piece is in transit.
  ScheduleRunner(Transport& transport, size_t piece_bytes_max);

  // Runs this rank's schedule. The first bytes to and from each peer are a header. The header of
  // each peer must be equal to `header`. `data` must contain every range of `schedule`. Ranges that
  // are reduced begin and end at element boundaries. After a failure the content of `data` is
  // undefined, and the caller must abort the transport, because its streams contain parts of
  // messages.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& header,
             Time deadline) {
    return Run(schedule, data, header, header, deadline);
  }
  // Like the function above, but the header of each peer must be equal to `expected`.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& sent,
             const MessageHeader& expected, Time deadline);

 private:
  struct Peer {
    size_t head_sent = 0, head_got = 0;  // bytes of the header that were sent and received
    MessageHeader got;
  };

  // Send or receive as many bytes of the current schedule step as possible. Return true if bytes
  // were moved, or if the send or receive of the step is complete.
  StatusOr<bool> Send();
  StatusOr<bool> Recv();
  Status Landed(const Step& step, size_t bytes);
  // Return the peer for which the sends, or the receives, wait. -1: none.
  int SendPeer() const;
  int RecvPeer() const;

  Transport& transport_;
  std::vector<std::byte> piece_;
  std::vector<Peer> peers_;

  // The state of the operation that is running.
  ScheduleCursor progress_;
  std::span<std::byte> data_;
  const MessageHeader* header_ = nullptr;    // header that is sent to peers
  const MessageHeader* expected_ = nullptr;  // header that is expected from peers
  size_t element_bytes_ = 1;
  size_t held_ = 0;  // number of bytes in piece_ that belong to an incomplete element
};

}  // namespace tandem::collective
