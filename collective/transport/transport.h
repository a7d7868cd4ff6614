// Bytes between ranks: what every collective algorithm is written over. An ordered, reliable stream
// of bytes in each direction between each pair of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// The same status with memory of its own. Copies of a Status share a count inside a library that
// the thread sanitizer cannot see into: what crosses threads here is copied by this.
inline Status OwnCopy(const Status& status) {
  return status.ok() ? OkStatus() : Status(status.code(), status.message());
}

// Send, Recv and Wait are for one thread (the communication thread); Abort and the rest are
// thread-safe. After the first failure, of whichever peer, every call returns that failure.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // For messages: "rank 1 (10.0.0.2:4711)".
  virtual std::string PeerName(int peer) const = 0;

  // Moves what can be moved now and returns the bytes moved, 0 when nothing can be. `head` goes
  // first, then `body`, as one stream (two spans so that a header and its data cost one call).
  virtual StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                                   std::span<const std::byte> body) = 0;
  virtual StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head,
                                   std::span<std::byte> body) = 0;
  // Blocks until TrySend to `send_to` (-1: not asked) or TryRecv from one of `recv_from`, two at
  // most, may move something, the transport failed, or `deadline` passed (DEADLINE_EXCEEDED naming
  // whom it waits for).
  virtual Status Wait(int send_to, std::span<const int> recv_from, Time deadline) = 0;

  // Fails this rank's calls with `status` and tells the peers, who fail with its message. Only the
  // first failure counts. Wakes a Wait; never blocks.
  virtual void Abort(const Status& status) = 0;
  // The failure, or OK. Seen here even when no operation runs.
  virtual Status Health() const = 0;
};

}  // namespace tandem
