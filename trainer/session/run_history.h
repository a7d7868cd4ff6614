// The steps that a session has run.
#pragma once

#include <cstdint>
#include <deque>

#include "common/base/require.h"

namespace tandem::trainer {

// The newest runs of a session, one entry each; older runs are dropped.
class RunHistory {
 public:
  static constexpr size_t kRunsMax = 1000;
  struct Entry {
    int64_t step = 0;    // the last step of the run, from 0
    int64_t steps = 1;   // steps in the run
    double seconds = 0;  // duration of all its steps, without waiting for data
    double loss = 0;     // NaN: not fetched
  };
  void Add(const Entry& entry) {
    TD_REQUIRE(entry.steps > 0);
    ++runs_;
    if (entries_.size() == kRunsMax) entries_.pop_front();
    entries_.push_back(entry);
  }
  const std::deque<Entry>& entries() const { return entries_; }
  int64_t runs() const { return runs_; }  // all runs, dropped ones included

 private:
  std::deque<Entry> entries_;
  int64_t runs_ = 0;
};

}  // namespace tandem::trainer
