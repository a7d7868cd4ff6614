// The interface of the transports that the collectives use: an ordered, reliable byte stream in
// each direction between each pair of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::collective {

// Transfers bytes between this rank and its peers. TrySend, TryRecv and Wait are for one thread at
// a time. Abort and all other functions are thread-safe. After the first failure of this rank or of
// a peer, every call returns this failure.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Returns a name of a peer for messages. Example: "rank 1 (10.0.0.2:4711)".
  virtual std::string PeerName(int peer) const = 0;

  // Send or receive as many bytes as is possible now, and return their number; 0: none. The stream
  // contains the bytes of `head`, then the bytes of `body`. With two parameters, a header and its
  // data need only one system call.
  virtual StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                                   std::span<const std::byte> body) = 0;
  virtual StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head,
                                   std::span<std::byte> body) = 0;
  // Blocks until TrySend to `send_to` (-1: none) or TryRecv from one of `recv_from` (at most two)
  // can move bytes, or until the transport has failed. DEADLINE_EXCEEDED: `deadline` has passed;
  // the message names the peer.
  virtual Status Wait(int send_to, std::span<const int> recv_from, Time deadline) = 0;

  // Fails all calls of this rank with `status`, and notifies the peers, whose calls fail with the
  // same message. Only the first failure has an effect. Wakes a Wait; does not block.
  virtual void Abort(const Status& status) = 0;
  // Returns the failure of the transport, or OK. The transport detects failures even if no
  // operation runs.
  virtual Status Health() const = 0;
};

}  // namespace tandem::collective
