// The sequence numbers of a client's pushes.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "pserver/client/push_part.h"

namespace tandem::ps {

// Each server has its own sequence, which begins with 1 and has no gaps. In a_sync mode, the
// messages of a push say in addition which numbers were given before (PushRequest.sent and .ended),
// so that servers know which messages belong together. Thread-safe.
class PushNumbering {
 public:
  // A push in progress.
  using Push = std::list<std::vector<uint64_t>>::iterator;

  explicit PushNumbering(bool sync) : sync_(sync) {}

  // Begins a push; `servers`: number of known servers. The push must End after all its messages.
  Push Begin(size_t servers);
  void End(Push push);
  // Numbers messages of one push. REQUIRES: the push has begun and not ended.
  void Number(std::span<PushPart> parts, size_t servers);

 private:
  void Grow(size_t servers) TD_REQUIRES(mu_);

  const bool sync_;  // the step identifies the messages of one push
  Mutex mu_;
  std::vector<uint64_t> sent_ TD_GUARDED_BY(mu_);  // by server: the last number
  // By push in progress, in the order of their begin: the last numbers at its begin.
  std::list<std::vector<uint64_t>> outstanding_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
