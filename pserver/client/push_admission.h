// Admits pushes to the retransmit buffer (push_retransmit_buffer.h) as soon as the buffer has room.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/client/calls.h"

namespace tandem::ps {

// Admits pushes in the order of the calls of Admit. While a push waits, asks servers for
// checkpoints, which make room in the buffer. Thread-safe. The arguments of the constructor must
// outlive this object.
class PushAdmission {
 public:
  using Then = std::function<void(const Status&)>;
  PushAdmission(Caller& caller, const PsOptions& options, Placement& placement, Resender& resender,
                WaitReporter& reporter)
      : caller_(caller),
        options_(options),
        placement_(placement),
        resender_(resender),
        reporter_(reporter) {}

  // Calls `then` with OK when `bytes` bytes are reserved in the buffer. RESOURCE_EXHAUSTED: there
  // was no room before `deadline`. CANCELLED: the client closes. REQUIRES: pushes are kept.
  void Admit(uint64_t step, size_t bytes, Time deadline, Then then);
  // Ends the waits of all pushes with CANCELLED.
  void Close();

 private:
  struct Waiting {
    uint64_t step;
    size_t bytes;
    Time deadline;
    Then then;
  };
  // Admits the waiting pushes that fit, and asks servers for checkpoints. Repeats this until no
  // push waits.
  void MakeRoom();
  void AskForCheckpoint(size_t server, uint64_t number);

  Caller& caller_;
  const PsOptions& options_;
  Placement& placement_;
  Resender& resender_;
  WaitReporter& reporter_;
  Mutex mu_;
  std::deque<Waiting> waiting_ TD_GUARDED_BY(mu_);
  std::set<size_t> asked_ TD_GUARDED_BY(mu_);  // servers with a pending request for a checkpoint
};

}  // namespace tandem::ps
