// Carries the communication of pserver mode's plan: pushes gradients and pulls parameters.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/exec/comm.h"
#include "pserver/client/client.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/comms/staged_comm.h"
#include "trainer/modes/pserver_mode.h"
#include "trainer/ps/async_communicator.h"
#include "trainer/ps/geo_parameters.h"
#include "trainer/ps/ps_tables.h"
#include "trainer/ps/stale_gradients.h"

namespace tandem::trainer {

// Owns the client. The pulls of all tables are sent with the last of them, and the gradients of
// rows with the dense ones, in one message per server and step.
class PserverComm final : public CommHandler {
 public:
  // All arguments must outlive this object.
  PserverComm(const PserverOptions& options, PsTables& tables);

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override;
  // The handlers of the training program and of evaluations, for tensors on any device.
  CommHandler& training() { return staged_; }
  CommHandler& evaluation() { return staged_evaluation_; }

  // Sets the client. Call Begin before the first step.
  void SetClient(std::unique_ptr<ps::PsClient> client) { client_ = std::move(client); }
  ps::PsClient* client() const { return client_.get(); }  // nullptr: not set yet
  // Forgets the communications of an aborted step.
  void ForgetStep();
  // Begins with the parameters `values` of version `version` of the servers.
  void Begin(const TensorMap& values, uint64_t version);
  void BeginStep(int64_t step, float learning_rate);
  bool looks_ahead() const { return options_.sync() && !tensors_.empty() && !tables_.empty(); }
  void Foresee(const NextBatchHint& next) { next_ = next; }
  // Sends the gradients that no exchange has sent yet.
  Status Finish();

  // The version of the servers that reads wait for: in sync mode that after the last step.
  uint64_t AwaitedVersion() const { return options_.sync() ? version_ : 0; }
  std::string TakeWarning() { return stale_.TakeWarning(); }
  int64_t pushes() const { return pushes_; }  // messages; one to all servers counts once
  int64_t pulls() const { return pulls_; }

 private:
  enum class Node : uint8_t { kPullRows, kPushRows, kExchange };

  std::vector<ps::PsTensor> View(ValueSets& values) const;
  // Implements AsyncCommunicator::Exchange.
  StatusOr<uint64_t> Exchange(const GradientSet* push, ValueSets* pull);
  Status SendAndReceive();
  void GeoExchange(CommDone* done);
  void StartPullRows(CommDone* done);
  void PullToEvaluate(ps::PsRows rows, CommDone* done);
  void StartPushRows(CommDone* done);
  void StartPushPull(CommDone* done);
  uint64_t StepBound(uint64_t done) const;

  const PserverOptions& options_;
  PsTables& tables_;
  PrefetchHandler evaluation_;
  StagedComm staged_{*this}, staged_evaluation_{evaluation_};
  std::vector<Node> nodes_;  // nodes of the plan, by index
  std::vector<CommDone*> pulling_;
  NextBatchHint next_;           // set by Foresee
  std::vector<RowSet> pushing_;  // rows of this step's push_rows, sent with push_pull
  // The push_pull or geo_exchange node of the plan.
  std::vector<ps::PsConstTensor> gradients_;
  std::vector<ps::PsTensor> tensors_;
  int64_t step_ = 0;
  float learning_rate_ = 0;
  uint64_t version_ = 0;      // sync: of the servers, after the last step
  GeoParameters geo_params_;  // for geo
  int64_t geo_pending_ = 0;   // steps since the last exchange
  std::atomic<int64_t> pushes_{0}, pulls_{0};
  StaleGradients stale_{options_.common.optimizer};
  std::unique_ptr<ps::PsClient> client_;  // its destructor waits for calls into the members above
  std::unique_ptr<AsyncCommunicator> communicator_;  // its threads use all members above
};

}  // namespace tandem::trainer
