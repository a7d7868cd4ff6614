// The sequence numbers of a client's pushes.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/pushes/push_part.h"

namespace tandem::ps {

// Numbers the messages of pushes. Each server has its own sequence, which begins with 1 and has no
// gaps. In a_sync mode, each message also reports which numbers its client used before
// (PushRequest.sent and .ended). Servers thus know which messages belong to the same push.
// Thread-safe.
class PushNumbering {
 public:
  // Identifies a push in progress.
  using Push = std::list<std::vector<uint64_t>>::iterator;

  explicit PushNumbering(bool sync) : sync_(sync) {}

  // Begins a push. `servers`: number of known servers. Call End when all messages of the push have
  // ended.
  Push Begin(size_t servers);
  void End(Push push);
  // Numbers messages of one push. REQUIRES: the push has begun and has not ended.
  void Number(std::span<PushPart> parts, size_t servers);

 private:
  void Grow(size_t servers) TD_REQUIRES(mu_);

  // true: the mode is sync. In sync mode, the step already identifies the messages of one push.
  const bool sync_;
  Mutex mu_;
  std::vector<uint64_t> sent_ TD_GUARDED_BY(mu_);  // by server: number of the last message
  // For each push in progress, in the order in which the pushes began: the last number used for
  // each server at that time.
  std::list<std::vector<uint64_t>> outstanding_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
