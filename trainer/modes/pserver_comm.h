// Executes the communication operators of a plan in pserver mode: pushes gradients and pulls
// parameters.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
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
#include "trainer/ps/local_steps.h"
#include "trainer/ps/ps_tables.h"
#include "trainer/ps/stale_gradients.h"

namespace tandem::trainer {

// Owns the client of the pservers. Pulls the rows of all tables together, when the last pull
// operator starts. Pushes the gradients of rows together with the dense gradients. Therefore a step
// has one push message and one pull message per server.
class PserverComm final : public exec::CommHandler {
 public:
  // All arguments must outlive this object.
  PserverComm(const PserverOptions& options, PsTables& tables);

  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override;
  Duration timeout() const override;
  // training and evaluation return the handlers of the training program and of evaluations. Both
  // handlers accept tensors on any device.
  exec::CommHandler& training() { return staged_; }
  exec::CommHandler& evaluation() { return staged_evaluation_; }

  // Sets the client of the pservers. The caller must call SetClient, then Begin, and then run the
  // first step.
  void SetClient(std::unique_ptr<ps::PsClient> client) { client_ = std::move(client); }
  ps::PsClient* client() const { return client_.get(); }  // nullptr: no client was set
  // Forgets the communications of a step that was aborted.
  void ForgetStep();
  // Sets the initial parameters: `values`, which are the servers' values of version `version`.
  // `fragments`: the names of the parameters of each fragment (PsSyncMode::kLocalSteps).
  void Begin(const TensorMap& values, uint64_t version,
             const std::vector<std::vector<std::string>>& fragments);
  void BeginStep(int64_t step, float learning_rate);
  void SetEventTime(int64_t ms) { event_time_ms_ = ms; }  // see StepHooks::SetEventTime
  bool looks_ahead() const { return options_.sync() && !tensors_.empty() && !tables_.empty(); }
  void Foresee(const NextBatchHint& next) { next_ = next; }
  // Pushes the gradients that no exchange has pushed yet.
  Status Finish();

  // Returns the parameter version for which reads from the servers must wait: in sync mode the
  // version after the last step. 0: reads do not wait.
  uint64_t AwaitedVersion() const { return options_.sync() ? version_ : 0; }
  std::string TakeWarning() { return stale_.TakeWarning(); }
  // pushes returns the number of pushes, and pulls the number of pulls of dense parameters. A push
  // or a pull to all servers counts once.
  int64_t pushes() const { return pushes_ + (local_steps_ ? local_steps_->pushes() : 0); }
  int64_t pulls() const { return pulls_ + (local_steps_ ? local_steps_->pulls() : 0); }

 private:
  enum class Node : uint8_t { kPullRows, kPushRows, kExchange };

  std::vector<ps::PsTensor> View(ValueSets& values) const;
  // Implements AsyncCommunicator::Exchange.
  StatusOr<uint64_t> Exchange(const GradientSet* push, ValueSets* pull);
  Status SendAndReceive();
  void GeoExchange(exec::CommDone* done);
  void StartPullRows(exec::CommDone* done);
  void PullToEvaluate(ps::PsRows rows, exec::CommDone* done);
  void StartPushRows(exec::CommDone* done);
  void StartPushPull(exec::CommDone* done);
  uint64_t StepBound(uint64_t done) const;

  const PserverOptions& options_;
  PsTables& tables_;
  PrefetchHandler evaluation_;
  StagedComm staged_{*this}, staged_evaluation_{evaluation_};
  std::vector<Node> nodes_;  // kinds of the plan's communication nodes, by index
  std::vector<exec::CommDone*> pulling_;
  NextBatchHint next_;           // data of the next step, set by Foresee
  std::vector<RowSet> pushing_;  // rows of this step's push_rows operators, not yet sent
  // The arguments of the plan's push_pull or geo_exchange operator.
  std::vector<ps::PsConstTensor> gradients_;
  std::vector<ps::PsTensor> tensors_;
  int64_t step_ = 0;
  float learning_rate_ = 0;
  int64_t event_time_ms_ = 0;
  uint64_t version_ = 0;  // version of the servers' parameters after the last step; sync mode only
  GeoParameters geo_params_;               // local parameters and differences; geo mode only
  int64_t geo_pending_ = 0;                // steps since the last exchange of geo mode
  std::optional<LocalSteps> local_steps_;  // absent: not kLocalSteps
  std::atomic<int64_t> pushes_{0}, pulls_{0};
  StaleGradients stale_{options_.common.optimizer};
  // Declared after the members above, because its destructor waits for calls that use these
  // members.
  std::unique_ptr<ps::PsClient> client_;
  // Last member, because its threads use the members above.
  std::unique_ptr<AsyncCommunicator> communicator_;
};

}  // namespace tandem::trainer
