#include "trainer/modes/hybrid_mode.h"

#include <utility>

#include "proto/job.pb.h"
#include "trainer/modes/comms/comm_routes.h"
#include "trainer/modes/comms/push_before_reduce_comm.h"
#include "trainer/modes/gradient_groups.h"
#include "trainer/modes/tables_and_dense.h"

namespace tandem::trainer {
namespace {

// Makes the programs of pserver mode and collective mode, and joins their communication.
class HybridMode final : public ProgramShaper {
 public:
  explicit HybridMode(const HybridOptions& options)
      : joined_({.leader = options.tables.common.leader(), .sync = options.tables.sync()},
                MakePserverMode(options.tables), MakeCollectiveMode(options.dense, {}),
                options.dense.returns.peers_return ? &push_first_ : nullptr),
        ranks_return_(options.dense.returns.peers_return) {
    comm_.Bind(joined_.tables().training, joined_.dense().training);
  }

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) override;
  Status DistributeForward(graph::Program& program) override {
    return joined_.tables().programs->DistributeForward(program);
  }

  TablesAndDense& joined() { return joined_; }
  exec::CommHandler& comm() { return comm_; }
  exec::CommHandler& push_first() { return push_first_; }

 private:
  // Refuses tables that are whole variables on the servers, if killed ranks can return: a repeated
  // step would get values after its own update.
  Status CheckReturn(const graph::Program& program) const;

  SplitComm comm_;
  PushBeforeReduceComm push_first_{comm_};  // used only if killed ranks can return
  TablesAndDense joined_;  // after the members above, because its pending calls use them
  const bool ranks_return_;
};

Status HybridMode::CheckReturn(const graph::Program& program) const {
  if (!ranks_return_) return OkStatus();
  for (const ops::Op& op : program.ops) {
    if (op.type != "push_pull") continue;
    return Unimplemented(
        "tandemrun --max_restarts is not implemented in mode hybrid together with an optimizer "
        "that updates table \"%s\" as a whole [TD1109]; hint: use an optimizer that updates rows, "
        "such as adagrad, or --mode=pserver",
        op.outputs[0].front());
  }
  return OkStatus();
}

Status HybridMode::Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) {
  const auto [sparse, dense] = SplitGradients(grads);
  if (sparse.empty() || dense.empty()) {
    return InvalidArgument(
        "mode hybrid needs a network with sparse and dense gradients, but this network has %d "
        "sparse and %d dense gradients [TD1113]; hint: use --mode=%s",
        sparse.size(), dense.size(), sparse.empty() ? "collective" : "pserver");
  }
  TD_RETURN_IF_ERROR(joined_.tables().programs->Distribute(program, sparse));
  TD_RETURN_IF_ERROR(CheckReturn(program));
  return joined_.dense().programs->Distribute(program, dense);
}

}  // namespace

HybridOptions HybridOptionsOf(const JobConfig& config, const RankInfo& rank,
                              const CommonOptions& common) {
  return {.tables = PserverOptionsOf(config, rank, common),
          .dense = CollectiveOptionsOf(config, rank, common)};
}

Status CheckHybrid(const JobConfig& config, const RankInfo& rank) {
  const DistributedStrategy& strategy = config.strategy();
  if (strategy.a_sync() && strategy.a_sync_configs().k_steps() > 0) {
    return Unimplemented("geo (a_sync_configs.k_steps) is not implemented in hybrid mode [TD1109]");
  }
  if (strategy.localsgd() || strategy.adaptive_localsgd()) {
    return Unimplemented(
        "localsgd and adaptive_localsgd are not implemented in hybrid mode [TD1109]");
  }
  if (rank.heter_workers > 0 && rank.peers_return) {
    return Unimplemented("tandemrun --max_restarts is not implemented with heter workers [TD1109]");
  }
  return OkStatus();
}

TrainingMode MakeHybridMode(const HybridOptions& options) {
  const auto mode = std::make_shared<HybridMode>(options);
  const TrainingMode& tables = mode->joined().tables();
  return {.owner = mode,
          .programs = mode.get(),
          .membership = &mode->joined(),
          .state = &mode->joined(),
          .steps = &mode->joined(),
          .training = options.dense.returns.peers_return ? &mode->push_first() : &mode->comm(),
          .evaluation = tables.evaluation,
          .tables = tables.tables,
          .calls = tables.calls,
          .evaluation_part = WholeOnRank0(options.tables.common.rank)};
}

}  // namespace tandem::trainer
