// A training mode that joins two modes: one for tables on pservers, one for dense parameters on the
// ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/modes/comms/push_before_reduce_comm.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// Joins the membership, the state and the steps of both modes. Calls the mode of the tables first.
// The mode of the dense parameters decides about stopping and recovery. Not thread-safe, except
// WaitedSeconds.
class TablesAndDense final : public Membership, public StateKeeper, public StepHooks {
 public:
  struct Options {
    bool leader = false;  // true: this process is rank 0
    bool sync = true;     // true: the servers apply gradients once per step
  };

  // `push_first`: orders the communication of a step if lost ranks can return, and must outlive
  // this object; nullptr: lost ranks cannot return.
  TablesAndDense(Options options, TrainingMode tables, TrainingMode dense,
                 PushBeforeReduceComm* push_first);

  const TrainingMode& tables() const { return tables_; }
  const TrainingMode& dense() const { return dense_; }

  // FAILED_PRECONDITION: in sync mode the tables and the dense parameters are at different steps.
  // The tables may be ahead by one step.
  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override;
  StatusOr<int64_t> Recover(const Status& why, const graph::Program& program, StepRollback& point,
                            const Stop& stop) override;
  StatusOr<bool> Stopping(bool mine) override { return dense_.membership->Stopping(mine); }
  StatusOr<int64_t> ValueOfRank0(int64_t value) override {
    return dense_.membership->ValueOfRank0(value);
  }
  std::vector<double> WaitedSeconds() const override { return dense_.membership->WaitedSeconds(); }
  Status Finish() override;
  void Abort(const Status& why) override;
  void ReleaseDeviceResources() override { dense_.membership->ReleaseDeviceResources(); }

  bool state_is_spread() const override { return dense_.state->state_is_spread(); }
  bool params_are_spread() const override { return dense_.state->params_are_spread(); }
  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& device) override;
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override;

  Status BeginStep(int64_t step, float learning_rate) override;
  void SetEventTime(int64_t ms) override { tables_.steps->SetEventTime(ms); }
  std::string TakeMessage(int64_t step) override { return dense_.steps->TakeMessage(step); }
  void AddCounts(ModeCounts* counts) const override;

 private:
  Status CheckTogether(int64_t of_tables, int64_t of_dense) const;

  const Options options_;
  exec::Scope* scope_ = nullptr;  // scope of the training program; set by Join
  PushBeforeReduceComm* const push_first_;
  const TrainingMode tables_, dense_;
};

}  // namespace tandem::trainer
