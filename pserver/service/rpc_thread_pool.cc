#include "pserver/service/rpc_thread_pool.h"

#include <utility>

namespace tandem::pserver {

RpcThreadPool::RpcThreadPool(const std::string& name, int threads, size_t queue_max,
                             Metrics& metrics)
    : most_busy_(
          metrics.GetGauge("tandem_pserver_busy_threads_max",
                           "Largest number of threads that worked on such calls at the same time",
                           {{"calls", name}})),
      pool_(name, threads, queue_max) {}

Status RpcThreadPool::Post(std::function<void()> work) {
  return pool_.Post([this, work = std::move(work)] {
    Count(1);
    work();
    Count(-1);
  });
}

void RpcThreadPool::Count(int change) {
  MutexLock lock(mu_);
  busy_ += change;
  if (busy_ <= most_) return;
  most_ = busy_;
  most_busy_.Set(most_);
}

}  // namespace tandem::pserver
