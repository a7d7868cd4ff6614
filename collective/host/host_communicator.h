// The communicator of host memory: one communication thread that runs collectives, in call order,
// over any Transport, or through memory that all ranks share.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/work_impl.h"
#include "collective/schedule/algorithms.h"
#include "collective/shared/shm_collectives.h"
#include "collective/shared/shm_transport.h"
#include "collective/transport/schedule_runner.h"
#include "collective/transport/transport.h"
#include "common/base/bounded_queue.h"

namespace tandem {

// The same on all ranks.
struct HostCommunicatorConfig {
  std::string name = "host";
  uint64_t id = 0;                                       // travels in every header
  Duration operation_timeout = std::chrono::minutes(5);  // where a call names no deadline
  size_t queue_max = 1024;                               // operations waiting to run
  AllReduceRule rule;
  size_t piece_bytes_max = 256 << 10;  // what is reduced at a time; fits the L2 cache
};

class HostCommunicator final : public Communicator {
 public:
  // With `memory`, which all ranks have or none, everything goes through it.
  HostCommunicator(std::unique_ptr<Transport> transport, const HostCommunicatorConfig& config,
                   std::shared_ptr<SharedMemory> memory = nullptr);
  ~HostCommunicator() override;

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }
  const std::string& name() const override { return config_.name; }
  std::shared_ptr<Work> Start(Collective call) override;
  Status Call(Collective call) override;
  Status Health() const override { return transport_->Health(); }
  StatusOr<Buffer> Allocate(size_t bytes) override;
  void Abort(const std::string& reason) override;

 private:
  Status Check(const Collective& call) const;
  void Loop();
  Status Execute(const Collective& call) TD_REQUIRES(run_mu_);
  Status Run(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  Status RunAllReduce(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  Status RunReduceScatter(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Of a call with groups.
  Status RunInGroups(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Of a kSendRecv: the next message to `to`, or from it.
  Status RunMessage(const Collective& call, Time deadline) TD_REQUIRES(run_mu_);
  Status RunReduce(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // `schedule` over `out` of the call, with `bytes` of its input in there before.
  Status ExchangeInPlace(const Collective& call, size_t bytes, const Schedule& schedule,
                         const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  Status ExchangeParts(const Collective& call, const Schedule& schedule,
                       const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  // Sums the `size` parts of scratch_, as a tree, into `out`.
  void ReduceParts(const Collective& call, size_t bytes) TD_REQUIRES(run_mu_);
  bool Direct(size_t bytes) const;
  Schedule AllReduceSchedule(const Collective& call) const;
  Schedule ReduceSchedule(const Collective& call) const;

  const HostCommunicatorConfig config_;
  const std::unique_ptr<Transport> transport_;
  BoundedQueue<std::shared_ptr<WorkImpl>> queue_;
  std::atomic<int> pending_{0};

  Mutex order_mu_;  // of calls

  Mutex run_mu_;  // held by whoever runs an operation: the communication thread, or a Call
  const std::unique_ptr<ShmCollectives>
      board_;  // null without shared memory; run_mu_, but for Allocate
  const std::unique_ptr<ShmTransport> pipes_;  // the same
  ScheduleRunner exchange_ TD_GUARDED_BY(run_mu_);
  std::vector<std::byte> scratch_ TD_GUARDED_BY(run_mu_);
  uint64_t collectives_ TD_GUARDED_BY(run_mu_) = 0;  // that were begun
  // Messages to each rank, and from it, that were begun.
  std::vector<uint64_t> sent_ TD_GUARDED_BY(run_mu_), received_ TD_GUARDED_BY(run_mu_);

  std::thread thread_;  // last: it uses everything above
};

}  // namespace tandem
