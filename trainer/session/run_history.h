// The durations and losses of the newest runs of a session.
#pragma once

#include <cstdint>
#include <deque>

#include "common/base/require.h"

namespace tandem::trainer {

// Keeps the newest kRunsMax runs of a session, one entry for each run. Drops older runs.
class RunHistory {
 public:
  static constexpr size_t kRunsMax = 1000;
  struct Entry {
    int64_t step = 0;    // number of the run's last step, from 0
    int64_t steps = 1;   // number of steps in the run
    double seconds = 0;  // duration of all steps of the run, without waiting for data
    double loss = 0;     // loss of the last step; NaN: not fetched
  };
  void Add(const Entry& entry) {
    TD_REQUIRE(entry.steps > 0);
    ++runs_;
    if (entries_.size() == kRunsMax) entries_.pop_front();
    entries_.push_back(entry);
  }
  const std::deque<Entry>& entries() const { return entries_; }
  int64_t runs() const { return runs_; }  // number of all runs, including dropped ones

 private:
  std::deque<Entry> entries_;
  int64_t runs_ = 0;
};

}  // namespace tandem::trainer
