// Keeps pushes to servers that log only the order of pushes (durability=replayable), and
// retransmits the pushes to a server that lost their values.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/carrier/options.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/pushes/push_retransmit_buffer.h"

namespace tandem::ps {

// Log numbers in a PushReply (proto/pserver.proto).
struct PushNumbers {
  uint64_t log_number = 0, kept_number = 0;
};

// Keeps and retransmits pushes. Thread-safe, except Enable. `channel` and `options` must outlive
// this object.
class Resender {
 public:
  Resender(PsChannel& channel, const PsOptions& options) : channel_(channel), options_(options) {}

  // Begins to keep pushes, up to about `bytes_max` bytes. Configure calls Enable before the first
  // push if a server requires kept pushes.
  void Enable(size_t bytes_max);
  bool enabled() const { return kept_ != nullptr; }
  // Size of the kept pushes in bytes.
  size_t bytes() const { return kept_ == nullptr ? 0 : kept_->bytes(); }
  // The buffer of kept pushes. REQUIRES: enabled()
  PushRetransmitBuffer& kept();

  // Reports to the buffer that a push ended with `status`. `pulls`: the message had a pull, which
  // may be the cause of an error. REQUIRES: enabled()
  void OnEnd(const PushPart& part, bool pulls, const Status& status, const PushNumbers& numbers);
  // Retransmits all kept pushes of this server. Has no effect if pushes are not kept, or if a
  // retransmission to this server is in progress.
  void SendAgain(size_t server);

 private:
  struct Resending;
  void SendNext(const std::shared_ptr<Resending>& all);

  PsChannel& channel_;
  const PsOptions& options_;
  std::unique_ptr<PushRetransmitBuffer> kept_;  // null until Enable
  Mutex mu_;
  // Servers to which a retransmission is in progress.
  std::set<size_t> resending_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
