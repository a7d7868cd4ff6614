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

// The configuration of a HostCommunicator. It must be equal on all ranks.
struct HostCommunicatorConfig {
  std::string name = "host";
  uint64_t id = 0;  // number of the communicator, which every message header contains
  Duration operation_timeout = std::chrono::minutes(5);  // time limit for calls without a deadline
  size_t queue_max = 1024;                               // maximum number of queued operations
  AllReduceRule rule;
  size_t piece_bytes_max = 256 << 10;  // maximum bytes reduced at a time; fits the L2 cache
};

class HostCommunicator final : public Communicator {
 public:
  // Makes a communicator over `transport`. If `memory` is not null, all operations transfer their
  // data through it. REQUIRES: either all ranks have `memory`, or no rank has it.
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
  // Runs a reduce or broadcast whose field `group` is set.
  Status RunInGroups(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Runs a kSendRecv. The headers contain the number of the message to rank `to`, and of the
  // message from rank `from`.
  Status RunMessage(const Collective& call, Time deadline) TD_REQUIRES(run_mu_);
  Status RunReduce(const Collective& call, const MessageHeader& header, Time deadline)
      TD_REQUIRES(run_mu_);
  // Copies `bytes` bytes of the call's input to its output, then runs `schedule` on the output.
  Status ExchangeInPlace(const Collective& call, size_t bytes, const Schedule& schedule,
                         const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  Status ExchangeParts(const Collective& call, const Schedule& schedule,
                       const MessageHeader& header, Time deadline) TD_REQUIRES(run_mu_);
  // Reduces the size() parts of scratch_ into call.out in the tree order of ring.h. Each part has
  // `bytes` bytes.
  void ReduceParts(const Collective& call, size_t bytes) TD_REQUIRES(run_mu_);
  bool Direct(size_t bytes) const;
  Schedule AllReduceSchedule(const Collective& call) const;
  Schedule ReduceSchedule(const Collective& call) const;

  const HostCommunicatorConfig config_;
  const std::unique_ptr<Transport> transport_;
  BoundedQueue<std::shared_ptr<WorkImpl>> queue_;
  std::atomic<int> pending_{0};

  Mutex order_mu_;  // serializes calls, so that operations are queued in call order

  // The thread that runs an operation holds this lock: the communication thread, or a caller of
  // Call.
  Mutex run_mu_;
  // Collectives in shared memory; null: the ranks share no memory. Guarded by run_mu_, except
  // Allocate.
  const std::unique_ptr<ShmCollectives> board_;
  // Transport in shared memory; null: the ranks share no memory. Guarded by run_mu_.
  const std::unique_ptr<ShmTransport> pipes_;
  ScheduleRunner exchange_ TD_GUARDED_BY(run_mu_);
  std::vector<std::byte> scratch_ TD_GUARDED_BY(run_mu_);
  uint64_t collectives_ TD_GUARDED_BY(run_mu_) = 0;  // number of collectives that have begun
  // Numbers of messages to and from each peer that have begun; the index is the peer.
  std::vector<uint64_t> sent_ TD_GUARDED_BY(run_mu_), received_ TD_GUARDED_BY(run_mu_);

  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace tandem::collective
