// Runs a schedule over a transport.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/schedule/schedule.h"
#include "collective/schedule/schedule_cursor.h"
#include "collective/transport/message.h"
#include "collective/transport/transport.h"

namespace tandem {

// For one thread. Allocates nothing after construction.
class ScheduleRunner {
 public:
  // `transport` is not owned and must outlive this. What is to be reduced arrives in pieces of at
  // most `piece_bytes_max` (>= 8), so that it is added while it is in the cache and while the next
  // piece is on its way.
  ScheduleRunner(Transport& transport, size_t piece_bytes_max);

  // Does this rank's part. The first bytes to and from each peer are the header, which must fit
  // that of the peer. `data` must hold every range of `schedule`, and ranges that are reduced begin
  // and end on elements. On failure `data` is undefined and the streams are no longer in step: the
  // transport must be aborted.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& header,
             Time deadline) {
    return Run(schedule, data, header, header, deadline);
  }
  // The same where peers do not send the header that they get.
  Status Run(const Schedule& schedule, std::span<std::byte> data, const MessageHeader& sent,
             const MessageHeader& expected, Time deadline);

 private:
  struct Peer {
    size_t head_sent = 0, head_got = 0;  // bytes of the header
    MessageHeader got;
  };

  // Each moves what it can of the current half step. True if something moved or a half step ended.
  StatusOr<bool> Send();
  StatusOr<bool> Recv();
  Status Landed(const Step& step, size_t bytes);
  // The peer to wait for, or -1 when this direction has nothing to wait for.
  int SendPeer() const;
  int RecvPeer() const;

  Transport& transport_;
  std::vector<std::byte> piece_;
  std::vector<Peer> peers_;

  // The operation under way.
  ScheduleCursor progress_;
  std::span<std::byte> data_;
  const MessageHeader* header_ = nullptr;    // that goes out
  const MessageHeader* expected_ = nullptr;  // that is to come
  size_t element_bytes_ = 1;
  size_t held_ = 0;  // bytes in piece_ that wait for the rest of their element
};

}  // namespace tandem
