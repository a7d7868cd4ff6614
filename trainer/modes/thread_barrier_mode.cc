#include "trainer/modes/thread_barrier_mode.h"

#include <utility>

#include "common/base/require.h"
#include "kernels/graph/distribute/update_by_owner.h"
#include "trainer/modes/comms/comm_routes.h"
#include "trainer/modes/gradient_groups.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {
namespace {

class ThreadBarrierMode final : public ProgramShaper,
                                public Membership,
                                public StateKeeper,
                                public StepHooks,
                                public exec::CommHandler {
 public:
  ThreadBarrierMode(const CommonOptions& options, TrainingMode places,
                    std::optional<TrainingMode> servers)
      : options_(options), places_(std::move(places)), servers_(std::move(servers)) {}

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& given) override {
    TD_ASSIGN_OR_RETURN(const std::vector<std::string> tables, graph::DistributedTables(program));
    if (!tables.empty()) {
      return Unimplemented(
          "use_thread_barrier is not implemented with the distributed table \"%s\" [TD1109]",
          tables[0]);
    }
    TD_ASSIGN_OR_RETURN(const std::vector<graph::ParamGrad> grads,
                        DensifyGradients(program, given, options_));
    std::vector<std::vector<graph::ParamGrad>> groups = {grads};
    if (options_.fuse_all_reduce)
      groups = graph::GroupGradients(program, grads, options_.group_rule);
    const std::vector<int> first(grads.size(), 0);
    TD_RETURN_IF_ERROR(graph::InsertReduce(program, graph::SplitByOwner(groups, grads, first)));
    if (servers_) TD_RETURN_IF_ERROR(servers_->programs->Distribute(program, grads));
    return graph::AppendBroadcast(program, graph::SplitByOwner({grads}, grads, first));
  }

  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override {
    if (servers_) {
      TD_ASSIGN_OR_RETURN(step, servers_->membership->Join(program, scope, state, step, stop));
    }
    return places_.membership->Join(program, scope, {}, step, stop);
  }
  Status Finish() override {
    TD_RETURN_IF_ERROR(places_.membership->Finish());
    return servers_ ? servers_->membership->Finish() : OkStatus();
  }
  void Abort(const Status& why) override {
    places_.membership->Abort(why);
    if (servers_) servers_->membership->Abort(why);
  }

  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& device) override {
    return servers_ ? servers_->state->State(program, scope, device)
                    : ScopeState(program, scope, device);
  }
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override {
    return ParamsOf(program, scope, host);
  }

  Status BeginStep(int64_t step, float learning_rate) override {
    return servers_ ? servers_->steps->BeginStep(step, learning_rate) : OkStatus();
  }
  void SetEventTime(int64_t ms) override {
    if (servers_) servers_->steps->SetEventTime(ms);
  }
  void AddCounts(ModeCounts* counts) const override {
    if (servers_) servers_->steps->AddCounts(counts);
  }

  StatusOr<int> Register(const exec::CommNode& node) override {
    const bool within = node.op->type == "c_reduce_sum" || node.op->type == "c_broadcast";
    TD_REQUIRE(within || servers_);
    return routes_.Register(within ? places_.training : servers_->training, node);
  }
  void Start(int index, int64_t step, exec::CommDone* done) override {
    routes_.Start(index, step, done);
  }
  Duration timeout() const override { return places_.training->timeout(); }

 private:
  const CommonOptions options_;
  const TrainingMode places_;  // the collective mode among the replicas of this process
  const std::optional<TrainingMode> servers_;  // pserver mode; nullopt except on the first replica
  CommRoutes routes_;
};

}  // namespace

TrainingMode MakeThreadBarrierMode(const CommonOptions& options, TrainingMode places,
                                   std::optional<TrainingMode> servers) {
  const auto mode = std::make_shared<ThreadBarrierMode>(options, std::move(places), servers);
  return {.owner = mode,
          .programs = mode.get(),
          .membership = mode.get(),
          .state = mode.get(),
          .steps = mode.get(),
          .training = mode.get(),
          .tables = servers ? servers->tables : nullptr,
          .calls = servers ? servers->calls : nullptr,
          .evaluation_part = servers ? servers->evaluation_part : EvaluationPart::kNone};
}

}  // namespace tandem::trainer
