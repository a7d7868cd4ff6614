#include "pserver/client/request_filler.h"

#include <algorithm>

#include "proto/pserver.pb.h"

namespace tandem::ps {

void RequestFiller::FillPull(PullCondition when, PullRequest* request) const {
  FillCaller(request);
  request->set_min_version(when.version);
  request->set_min_step(when.step);
  if (when.exactly) request->set_at_version(when.version);
  request->set_timeout_ms(TimeoutMs(options_.patience.call_timeout()));
}

void RequestFiller::NoteStep(uint64_t step) {
  uint64_t highest = highest_step_;
  while (highest < step && !highest_step_.compare_exchange_weak(highest, step)) continue;
}

uint64_t RequestFiller::TimeoutMs(Duration timeout) {
  return static_cast<uint64_t>(std::max<int64_t>(1, Millis(timeout)));
}

}  // namespace tandem::ps
