// The communicator of host memory. One communication thread runs collectives in call order, over
// any Transport or through memory that all ranks share.
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
#include "common/threads/bounded_queue.h"

namespace tandem::collective {

// Must be the same on all ranks.
struct HostCommunicatorConfig {
  std::string name = "host";
  uint64_t id = 0;                                       // part of every message header
  Duration operation_timeout = std::chrono::minutes(5);  // for calls without a deadline
  size_t queue_max = 1024;                               // most operations that wait to run
  AllReduceRule rule;
  size_t piece_bytes_max = 256 << 10;  // bytes that are reduced at a time; fits the L2 cache
};

class HostCommunicator final : public Communicator {
 public:
  // All operations use `memory` if it is not null. REQUIRES that either all ranks have it or none.
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
  // Runs a call with groups.
  Status RunInGroups(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Runs a kSendRecv: the next message to rank `to`, or from rank `from`.
  Status RunMessage(const Collective& call, Time deadline) TD_REQUIRES(run_mu_);
  Status RunReduce(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Runs `schedule` on `out` of the call, after copying `bytes` of its input there.
  Status ExchangeInPlace(const Collective& call, size_t bytes, const Schedule& schedule,
                         const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  Status ExchangeParts(const Collective& call, const Schedule& schedule,
                       const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  // Adds the `size` parts of scratch_, as a tree, into `out`.
  void ReduceParts(const Collective& call, size_t bytes) TD_REQUIRES(run_mu_);
  bool Direct(size_t bytes) const;
  Schedule AllReduceSchedule(const Collective& call) const;
  Schedule ReduceSchedule(const Collective& call) const;

  const HostCommunicatorConfig config_;
  const std::unique_ptr<Transport> transport_;
  BoundedQueue<std::shared_ptr<WorkImpl>> queue_;
  std::atomic<int> pending_{0};

  Mutex order_mu_;  // keeps calls in order

  Mutex run_mu_;  // held by the thread that runs an operation: the communication thread, or a Call
  const std::unique_ptr<ShmCollectives>
      board_;  // null without shared memory; guarded by run_mu_, except Allocate
  const std::unique_ptr<ShmTransport> pipes_;  // null without shared memory; guarded by run_mu_
  ScheduleRunner exchange_ TD_GUARDED_BY(run_mu_);
  std::vector<std::byte> scratch_ TD_GUARDED_BY(run_mu_);
  uint64_t collectives_ TD_GUARDED_BY(run_mu_) = 0;  // collectives begun
  // Messages begun, by peer.
  std::vector<uint64_t> sent_ TD_GUARDED_BY(run_mu_), received_ TD_GUARDED_BY(run_mu_);

  std::thread thread_;  // last: it uses everything above
};

}  // namespace tandem::collective
