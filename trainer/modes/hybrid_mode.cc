// mode=hybrid: tables are on the pservers, and dense parameters are reduced among the trainers in
// the same step. This file combines the two modes.
// If killed ranks can return, a step must complete on all ranks or be repeated on all ranks,
// including the tables. So the last reduction of a step starts after the servers have accepted this
// rank's rows. A rank that completed a step therefore knows that the servers have all rows of the
// step.
// If no rank completed the step, all repeat it as new incarnations, and the servers discard what
// they have of the step. A server that had already received all of it serves the rows of the
// previous version, which it keeps. It treats the same gradients as duplicates
// (pserver/shard/shard.h).
#include <utility>

#include "collective/communicator.h"
#include "common/base/step_number.h"
#include "trainer/modes/comm_routes.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/push_before_reduce_comm.h"

namespace tandem::trainer {
namespace {

class HybridMode final : public ModeDriver {
 public:
  explicit HybridMode(const ModeOptions& options)
      : options_(options),
        tables_(MakePserverMode(options)),
        dense_(MakeCollectiveMode(options, {})) {
    comm_.Bind(tables_->comm(), dense_->comm());
  }

  Status Distribute(Program& program, const std::vector<ParamGrad>& grads) override;
  Status DistributeForward(Program& program) override {
    return tables_->DistributeForward(program);
  }
  CommHandler* comm() override {
    return options_.peers_return ? static_cast<CommHandler*>(&push_first_) : &comm_;
  }
  CommHandler* evaluation_comm() override { return tables_->evaluation_comm(); }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override;
  StatusOr<int64_t> Recover(const Status& why, const Program& program, StepRollback& point,
                            const std::function<bool()>& stop) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    TD_RETURN_IF_ERROR(tables_->BeginStep(step, learning_rate));
    return dense_->BeginStep(step, learning_rate);
  }
  std::vector<double> WaitedSeconds() const override { return dense_->WaitedSeconds(); }
  bool state_is_spread() const override { return dense_->state_is_spread(); }
  StatusOr<bool> Stopping(bool mine) override { return dense_->Stopping(mine); }
  Status Gather() override { return tables_->Gather(); }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override;
  std::function<Status(const std::string& path)> table_writer() override {
    return tables_->table_writer();
  }
  Status TakeTables(const std::string& path) override { return tables_->TakeTables(path); }
  std::string News(int64_t step) override { return dense_->News(step); }
  void AddCounts(std::map<std::string, double>* counts) const override {
    tables_->AddCounts(counts);
    dense_->AddCounts(counts);
  }
  const RpcLog* rpc_log() const override { return tables_->rpc_log(); }
  Status Finish() override {
    TD_RETURN_IF_ERROR(tables_->Finish());
    return dense_->Finish();
  }
  void ReleaseDeviceResources() override { dense_->ReleaseDeviceResources(); }
  void Abort(const Status& why) override {
    dense_->Abort(why);
    tables_->Abort(why);
  }

 private:
  const ModeOptions options_;
  Scope* scope_ = nullptr;
  SplitComm comm_;
  PushBeforeReduceComm push_first_{comm_};
  const std::unique_ptr<ModeDriver> tables_, dense_;  // last: their calls end in the members above
};

StatusOr<int64_t> HybridMode::Start(const Program& program, Scope& scope, const TensorMap& state,
                                    int64_t step, const std::function<bool()>& stop) {
  scope_ = &scope;
  TD_ASSIGN_OR_RETURN(const int64_t of_tables, tables_->Start(program, scope, state, step, stop));
  TD_ASSIGN_OR_RETURN(step, dense_->Start(program, scope, state, step, stop));
  TD_RETURN_IF_ERROR(CheckTogether(options_.regime, of_tables, step));
  return step;
}

StatusOr<int64_t> HybridMode::Recover(const Status& why, const Program& program,
                                      StepRollback& point, const std::function<bool()>& stop) {
  TD_ASSIGN_OR_RETURN(const int64_t step, dense_->Recover(why, program, point, stop));
  TD_ASSIGN_OR_RETURN(const int64_t of_tables, tables_->Start(program, *scope_, {}, 0, stop));
  TD_RETURN_IF_ERROR(CheckTogether(options_.regime, of_tables, step));
  push_first_.Reset();
  return step;
}

Status HybridMode::Distribute(Program& program, const std::vector<ParamGrad>& grads) {
  std::vector<ParamGrad> sparse, dense;
  for (const ParamGrad& pair : grads) (pair.rows.empty() ? dense : sparse).push_back(pair);
  if (sparse.empty() || dense.empty()) {
    return InvalidArgument(
        "mode hybrid needs a network with sparse and dense gradients, but this network has %d "
        "sparse and %d dense ones [TD1113]; hint: --mode=%s",
        sparse.size(), dense.size(), sparse.empty() ? "collective" : "pserver");
  }
  TD_RETURN_IF_ERROR(tables_->Distribute(program, sparse));
  return dense_->Distribute(program, dense);
}

StatusOr<TensorMap> HybridMode::State(const Program& program, const Scope& scope, Device& device) {
  TD_ASSIGN_OR_RETURN(TensorMap state, dense_->State(program, scope, device));
  TD_ASSIGN_OR_RETURN(TensorMap of_tables, tables_->State(program, scope, device));
  state.merge(of_tables);  // both contain the variables of the scope
  return state;
}

}  // namespace

Status CheckTogether(PsSyncMode regime, int64_t of_tables, int64_t of_dense) {
  if (regime != PsSyncMode::kSync) return OkStatus();
  if (of_tables == of_dense || of_tables == of_dense + 1) return OkStatus();
  return FailedPrecondition(
      "pservers and trainers are at different steps: the tables are at step %d, the dense "
      "parameters at step %d [TD7012]; hint: restart both from the checkpoint of the job",
      DisplayStep(of_tables), DisplayStep(of_dense));
}

StatusOr<std::unique_ptr<ModeDriver>> MakeHybridMode(const ModeOptions& options) {
  if (options.regime == PsSyncMode::kGeo) {
    return Unimplemented("geo (a_sync_configs.k_steps) is not implemented in hybrid mode [TD1109]");
  }
  if (options.average)
    return Unimplemented(
        "localsgd and adaptive_localsgd are not implemented in hybrid mode [TD1109]");
  if (options.heter_workers > 0) return MakeHeterMode(options);
  return std::make_unique<HybridMode>(options);
}

}  // namespace tandem::trainer
