// The threads of a server for one kind of call (knobs rpc_*_thread_num).
#pragma once

#include <string>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/threads/runner.h"

namespace tandem::pserver {

// A thread pool with a metric: the maximum number of threads that worked at the same time so far.
// Thread-safe.
class RpcThreadPool final : public Runner {
 public:
  // Starts `threads` threads with the names `name`-0, `name`-1, ... `queue_max`: maximum number of
  // waiting tasks. `metrics` must outlive this object.
  RpcThreadPool(const std::string& name, int threads, size_t queue_max, Metrics& metrics);
  Status Post(std::function<void()> work) override;

 private:
  void Count(int change);

  Gauge& most_busy_;
  Mutex mu_;
  int busy_ TD_GUARDED_BY(mu_) = 0, most_ TD_GUARDED_BY(mu_) = 0;
  // The last member, so that its threads end before the other members are destroyed.
  ThreadPool pool_;
};

}  // namespace tandem::pserver
