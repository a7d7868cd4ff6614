// Threads of a server for one kind of call (knobs rpc_*_thread_num).
#pragma once

#include <string>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/threads/runner.h"

namespace tandem::pserver {

// Thread-safe. The metrics show the maximum number of threads that worked at once.
class RpcThreadPool final : public Runner {
 public:
  // Starts threads `name`-0, `name`-1, ...; `metrics` must outlive this.
  RpcThreadPool(const std::string& name, int threads, size_t queue_max, Metrics& metrics);
  Status Post(std::function<void()> work) override;

 private:
  void Count(int change);

  Gauge& most_busy_;
  Mutex mu_;
  int busy_ TD_GUARDED_BY(mu_) = 0, most_ TD_GUARDED_BY(mu_) = 0;
  ThreadPool pool_;  // last member: its threads end before the other members
};

}  // namespace tandem::pserver
