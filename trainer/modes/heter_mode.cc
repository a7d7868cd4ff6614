// mode=hybrid with heter workers (tandemrun --heter_workers). The last ranks are heter workers;
// each serves the same number of trainers.
// The program is partitioned into two stages, as for a pipeline. Operators under the device guard
// run on heter workers, all others on trainers.
// A trainer pulls the rows of its batch, looks them up and sends the values to its heter worker.
// The heter worker computes the loss and the backward pass and updates the dense parameters; each
// trainer's batch is a micro batch to it. It returns the gradients of the values, and the trainer
// pushes the gradients of the rows.
// Dense parameters are reduced among the ranks of the same stage. Only trainers connect to
// pservers.
#include <utility>

#include "collective/communicator.h"
#include "kernels/graph/passes/sections.h"
#include "trainer/modes/comm_routes.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {
namespace {

// Options as the pservers see them: there are only trainers.
ModeOptions OfTrainers(ModeOptions options) {
  options.ranks -= options.heter_workers;
  return options;
}

class HeterMode final : public ModeDriver {
 public:
  HeterMode(const ModeOptions& options, std::unique_ptr<ModeDriver> sections)
      : options_(options),
        tables_(MakePserverMode(OfTrainers(options))),
        sections_(std::move(sections)) {
    comm_.Bind(tables_->comm(), sections_->comm());
    evaluation_.Bind(tables_->evaluation_comm(), sections_->evaluation_comm());
  }

  Status PlaceOperators(Program& forward) override {
    return AssignGuard(forward, options_.device_guard);
  }
  Status Distribute(Program& program, const std::vector<ParamGrad>& grads) override;
  Status DistributeForward(Program& program) override {
    return tables_->DistributeForward(program);
  }
  CommHandler* comm() override { return &comm_; }
  CommHandler* evaluation_comm() override { return &evaluation_; }
  int micro_batches() const override { return sections_->micro_batches(); }
  bool evaluates() const override { return sections_->evaluates(); }
  bool serves() const override { return false; }
  StatusOr<Program> Evaluated(const Program& forward) override {
    return sections_->Evaluated(forward);
  }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    if (trains()) TD_RETURN_IF_ERROR(tables_->BeginStep(step, learning_rate));
    return sections_->BeginStep(step, learning_rate);
  }
  std::vector<double> WaitedSeconds() const override { return sections_->WaitedSeconds(); }
  bool state_is_spread() const override { return true; }
  bool params_are_spread() const override { return true; }
  StatusOr<bool> Stopping(bool mine) override { return sections_->Stopping(mine); }
  Status Gather() override { return trains() ? tables_->Gather() : OkStatus(); }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& host) override;
  StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host) override;
  std::function<Status(const std::string& path)> table_writer() override {
    return tables_->table_writer();
  }
  Status TakeTables(const std::string& path) override { return tables_->TakeTables(path); }
  void AddCounts(std::map<std::string, double>* counts) const override {
    if (trains()) tables_->AddCounts(counts);
    sections_->AddCounts(counts);
    (*counts)["heter_workers"] = options_.heter_workers;
  }
  const RpcLog* rpc_log() const override { return trains() ? tables_->rpc_log() : nullptr; }
  Status Finish() override {
    if (trains()) TD_RETURN_IF_ERROR(tables_->Finish());
    return sections_->Finish();
  }
  void Abort(const Status& why) override {
    sections_->Abort(why);
    if (trains()) tables_->Abort(why);
  }

 private:
  bool leader() const { return options_.rank == 0; }
  bool trains() const { return options_.rank < options_.ranks - options_.heter_workers; }

  const ModeOptions options_;
  SplitComm comm_, evaluation_;
  // last: their calls end in the members above
  const std::unique_ptr<ModeDriver> tables_, sections_;
};

Status HeterMode::Distribute(Program& program, const std::vector<ParamGrad>& grads) {
  std::vector<ParamGrad> sparse, dense;
  for (const ParamGrad& pair : grads) (pair.rows.empty() ? dense : sparse).push_back(pair);
  if (sparse.empty()) {
    return InvalidArgument(
        "mode hybrid needs a network with sparse gradients, but this network has none [TD1113]; "
        "hint: set model argument sparse=1 or distributed=1");
  }
  TD_RETURN_IF_ERROR(sections_->Distribute(program, dense));
  return trains() ? tables_->Distribute(program, sparse) : OkStatus();
}

StatusOr<int64_t> HeterMode::Start(const Program& program, Scope& scope, const TensorMap& state,
                                   int64_t step, const std::function<bool()>& stop) {
  int64_t of_tables = 0;
  if (trains()) {
    TD_ASSIGN_OR_RETURN(of_tables, tables_->Start(program, scope, state, step, stop));
  }
  TD_ASSIGN_OR_RETURN(step, sections_->Start(program, scope, state, step, stop));
  if (trains()) TD_RETURN_IF_ERROR(CheckTogether(options_.regime, of_tables, step));
  return step;
}

StatusOr<TensorMap> HeterMode::State(const Program& program, const Scope& scope, Device& host) {
  TD_ASSIGN_OR_RETURN(TensorMap state, sections_->State(program, scope, host));
  if (!leader()) return state;
  TD_ASSIGN_OR_RETURN(TensorMap of_tables, tables_->State(program, scope, host));
  state.merge(of_tables);  // both contain the variables of the scope
  return state;
}

// Only rank 0 holds copies of the tables.
StatusOr<TensorMap> HeterMode::Params(const Program& program, Scope& scope, Device& host) {
  TD_ASSIGN_OR_RETURN(TensorMap params, sections_->Params(program, scope, host));
  TD_ASSIGN_OR_RETURN(TensorMap own, ParamsOf(program, scope, host));
  params.merge(own);
  return params;
}

}  // namespace

StatusOr<std::unique_ptr<ModeDriver>> MakeHeterMode(const ModeOptions& options) {
  if (options.peers_return) {
    return Unimplemented("tandemrun --max_restarts is not implemented with heter workers [TD1109]");
  }
  TD_ASSIGN_OR_RETURN(auto sections, MakePipelineMode(options));
  return std::make_unique<HeterMode>(options, std::move(sections));
}

}  // namespace tandem::trainer
