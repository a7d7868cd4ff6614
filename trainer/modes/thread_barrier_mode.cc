// mode=pserver with use_thread_barrier: the replicas of one process are one trainer to the
// pservers. Gradients are summed in memory at the first replica. Only this replica pushes and
// pulls; it then broadcasts the pulled values.
#include "absl/strings/str_format.h"
#include "collective/communicator.h"
#include "kernels/graph/passes/update_by_owner.h"
#include "trainer/modes/comm_routes.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {
namespace {

class ThreadBarrierMode final : public ModeDriver, public CommHandler {
 public:
  ThreadBarrierMode(const ModeOptions& options, std::unique_ptr<ModeDriver> places,
                    std::unique_ptr<ModeDriver> servers)
      : options_(options), places_(std::move(places)), servers_(std::move(servers)) {}

  Status Distribute(Program& program, const std::vector<ParamGrad>& given) override {
    TD_ASSIGN_OR_RETURN(const std::vector<std::string> tables, DistributedTables(program));
    if (!tables.empty()) {
      return Unimplemented(
          "use_thread_barrier with table \"%s\", which is_distributed, is not implemented [TD1109]",
          tables[0]);
    }
    TD_ASSIGN_OR_RETURN(const std::vector<ParamGrad> grads,
                        DensifyGradients(program, given, options_));
    std::vector<std::vector<ParamGrad>> groups = {grads};
    if (options_.fuse_all_reduce) groups = GroupGradients(program, grads, options_.group_rule);
    const std::vector<int> first(grads.size(), 0);
    TD_RETURN_IF_ERROR(InsertReduce(program, SplitByOwner(groups, grads, first)));
    if (servers_ != nullptr) TD_RETURN_IF_ERROR(servers_->Distribute(program, grads));
    return AppendBroadcast(program, SplitByOwner({grads}, grads, first));
  }

  CommHandler* comm() override { return this; }

  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override {
    if (servers_ != nullptr) {
      TD_ASSIGN_OR_RETURN(step, servers_->Start(program, scope, state, step, stop));
    }
    return places_->Start(program, scope, {}, step, stop);
  }

  Status BeginStep(int64_t step, float learning_rate) override {
    return servers_ != nullptr ? servers_->BeginStep(step, learning_rate) : OkStatus();
  }
  Status Gather() override { return servers_ != nullptr ? servers_->Gather() : OkStatus(); }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override {
    return servers_ != nullptr ? servers_->State(program, scope, device)
                               : ScopeState(program, scope, device);
  }
  void AddCounts(std::map<std::string, double>* counts) const override {
    if (servers_ != nullptr) servers_->AddCounts(counts);
  }
  const RpcLog* rpc_log() const override {
    return servers_ != nullptr ? servers_->rpc_log() : nullptr;
  }
  Status Finish() override {
    TD_RETURN_IF_ERROR(places_->Finish());
    return servers_ != nullptr ? servers_->Finish() : OkStatus();
  }
  void Abort(const Status& why) override {
    places_->Abort(why);
    if (servers_ != nullptr) servers_->Abort(why);
  }

  StatusOr<int> Register(const CommNode& node) override {
    const bool within = node.op->type == "c_reduce_sum" || node.op->type == "c_broadcast";
    return routes_.Register(within ? places_->comm() : servers_->comm(), node);
  }
  void Start(int index, int64_t step, CommDone* done) override { routes_.Start(index, step, done); }
  Duration timeout() const override { return places_->comm()->timeout(); }

 private:
  const ModeOptions options_;
  const std::unique_ptr<ModeDriver> places_;  // collective mode among the replicas
  // Pserver mode of the first replica; nullptr on the others.
  const std::unique_ptr<ModeDriver> servers_;
  CommRoutes routes_;
};

}  // namespace

std::unique_ptr<ModeDriver> MakeThreadBarrierMode(const ModeOptions& options,
                                                  std::unique_ptr<ModeDriver> places,
                                                  std::unique_ptr<ModeDriver> servers) {
  return std::make_unique<ThreadBarrierMode>(options, std::move(places), std::move(servers));
}

}  // namespace tandem::trainer
