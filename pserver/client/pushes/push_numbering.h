// The sequence numbers of a client's pushes.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/pushes/push_part.h"

namespace tandem::ps {

// Assigns numbers to the messages of pushes. Each server has its own sequence of numbers, which
// begins with 1 and has no gaps. In a_sync mode, each message also reports the numbers of the
// client's messages to all servers (PushRequest.sent and .ended), so that servers know which
// messages belong to the same push. Thread-safe.
class PushNumbering {
 public:
  // Identifies a push in progress.
  using Push = std::list<std::vector<uint64_t>>::iterator;

  explicit PushNumbering(bool sync) : sync_(sync) {}

  // Begins a push. `servers`: number of known servers. The caller calls End when all messages of
  // the push have ended.
  Push Begin(size_t servers);
  void End(Push push);
  // Assigns numbers to messages of one push. REQUIRES: the push has begun and has not ended.
  void Number(std::span<PushPart> parts, size_t servers);
  // Returns by server the number up to which all pushes have ended. Empty in sync mode.
  std::vector<uint64_t> Ended();

 private:
  void Grow(size_t servers) TD_REQUIRES(mu_);

  // In sync mode, messages report no numbers, because the step already identifies the messages of
  // one push.
  const bool sync_;
  Mutex mu_;
  std::vector<uint64_t> sent_ TD_GUARDED_BY(mu_);  // by server: number of the newest message
  // By push in progress, in the order of Begin: a copy of sent_ at the begin of the push.
  std::list<std::vector<uint64_t>> outstanding_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
