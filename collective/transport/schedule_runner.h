// Runs a schedule over a transport.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/schedule/schedule.h"
#include "collective/schedule/schedule_cursor.h"
#include "collective/transport/message.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

// Runs schedules, one after another. For one thread. Allocates no memory after construction.
class ScheduleRunner {
 public:
  // `transport` is not owned and must outlive this. Data to be reduced are received in pieces of at
  // most `piece_bytes_max` (>= 8). The runner adds a piece while it is in the cache and while the
  // next piece is in transit.
  ScheduleRunner(Transport& transport, size_t piece_bytes_max);

  // Runs this rank's schedule. The first bytes to and from each peer are the header, which must
  // match that of the peer. `data` must hold every range of `schedule`; ranges that are reduced
  // begin and end at elements. After a failure `data` is undefined and the streams are out of step:
  // the caller must abort the transport.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& header,
             Time deadline) {
    return Run(schedule, data, header, header, deadline);
  }
  // The same, for peers that send a header other than the one they receive.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& sent,
             const MessageHeader& expected, Time deadline);

 private:
  struct Peer {
    size_t head_sent = 0, head_got = 0;  // bytes of the header
    MessageHeader got;
  };

  // Each moves as many bytes as possible of its current half. Returns true if bytes moved or a half
  // ended.
  StatusOr<bool> Send();
  StatusOr<bool> Recv();
  Status Landed(const Step& step, size_t bytes);
  // The peer to wait for; -1: this direction has nothing to wait for.
  int SendPeer() const;
  int RecvPeer() const;

  Transport& transport_;
  std::vector<std::byte> piece_;
  std::vector<Peer> peers_;

  // State of the running operation.
  ScheduleCursor progress_;
  std::span<std::byte> data_;
  const MessageHeader* header_ = nullptr;    // sent to peers
  const MessageHeader* expected_ = nullptr;  // expected from peers
  size_t element_bytes_ = 1;
  size_t held_ = 0;  // bytes in piece_ of an incomplete element
};

}  // namespace tandem::collective
