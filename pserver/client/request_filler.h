// Fills the fields that all requests of one client have in common.
#pragma once

#include <atomic>
#include <cstdint>

#include "pserver/client/client.h"

namespace tandem {
class PullRequest;
}  // namespace tandem

namespace tandem::ps {

// Fills requests. Thread-safe. `options` must outlive this object. Configure sets
// `options.incarnation` before other calls fill requests.
class RequestFiller {
 public:
  explicit RequestFiller(const PsOptions& options) : options_(options) {}

  template <typename Request>
  void FillCaller(Request* request) const {
    request->set_job(options_.job);
    request->set_trainer_id(static_cast<uint32_t>(options_.trainer));
    request->set_incarnation(options_.incarnation);
  }
  // Fills all fields except the ranges and rows to pull.
  void FillPull(PullCondition when, PullRequest* request) const;

  // Records the step in the condition of a new pull (PullCondition::step).
  void NoteStep(uint64_t step);
  uint64_t highest_step() const { return highest_step_; }  // highest step that NoteStep recorded

  // Converts `timeout` to the value of the field timeout_ms: at least 1.
  static uint64_t TimeoutMs(Duration timeout);

 private:
  const PsOptions& options_;
  std::atomic<uint64_t> highest_step_{0};
};

}  // namespace tandem::ps
