// Keeps pushes to servers that log only the order of pushes (durability=replayable), and sends them
// again to a server that lost their values.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/push_retransmit_buffer.h"

namespace tandem::ps {

// Fields of PushReply (proto/pserver.proto).
struct PushNumbers {
  uint64_t log_number = 0, kept_number = 0;
};

// Thread-safe, except Enable. `channel` and `options` must outlive this.
class Resender {
 public:
  Resender(PsChannel& channel, const PsOptions& options) : channel_(channel), options_(options) {}

  // A server asks for kept pushes. Called by Configure, before the first push.
  void Enable(size_t bytes_max);
  bool enabled() const { return kept_ != nullptr; }
  // Bytes of kept pushes.
  size_t bytes() const { return kept_ == nullptr ? 0 : kept_->bytes(); }
  // REQUIRES: enabled
  PushRetransmitBuffer& kept();

  // A kept push ended with `status`. `pulls`: the message had a pull, which may be the cause of an
  // error. REQUIRES: enabled
  void OnEnd(const PushPart& part, bool pulls, const Status& status, const PushNumbers& numbers);
  // Sends all kept pushes of this server again, unless that is already in progress. Does nothing if
  // pushes are not kept.
  void SendAgain(size_t server);

 private:
  struct Resending;
  void SendNext(const std::shared_ptr<Resending>& all);

  PsChannel& channel_;
  const PsOptions& options_;
  std::unique_ptr<PushRetransmitBuffer> kept_;  // set by Enable
  Mutex mu_;
  std::set<size_t> resending_ TD_GUARDED_BY(mu_);  // servers to which pushes are sent again now
};

}  // namespace tandem::ps
