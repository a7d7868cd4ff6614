#include "trainer/modes/heter_mode.h"

#include <utility>

#include "common/base/require.h"
#include "kernels/graph/distribute/sections.h"
#include "trainer/modes/comms/comm_routes.h"
#include "trainer/modes/gradient_groups.h"
#include "trainer/modes/tables_and_dense.h"

namespace tandem::trainer {
namespace {

// Makes the programs of pserver mode and pipeline mode, and joins their communication.
class HeterMode final : public ProgramShaper {
 public:
  HeterMode(const HeterOptions& options, TrainingMode sections)
      : options_(options),
        joined_({.leader = options.tables.common.leader(), .sync = options.tables.sync()},
                MakePserverMode(options.tables), std::move(sections), nullptr) {
    training_.Bind(joined_.tables().training, joined_.dense().training);
    evaluation_.Bind(joined_.tables().evaluation, joined_.dense().evaluation);
  }

  Status PlaceOperators(graph::Program& forward) override {
    return graph::AssignGuard(forward, options_.sections.device_guard);
  }
  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) override;
  Status DistributeForward(graph::Program& program) override {
    return joined_.tables().programs->DistributeForward(program);
  }
  StatusOr<graph::Program> EvaluatedPart(const graph::Program& bound) override {
    return joined_.dense().programs->EvaluatedPart(bound);
  }

  // Returns whether this rank is a trainer. Only trainers have a client of the pservers.
  bool trains() const { return options_.tables.common.rank < options_.tables.common.ranks; }
  TablesAndDense& joined() { return joined_; }
  exec::CommHandler& training() { return training_; }
  exec::CommHandler& evaluation() { return evaluation_; }

 private:
  const HeterOptions options_;
  SplitComm training_, evaluation_;
  TablesAndDense joined_;  // last member, because its pending calls use the members above
};

Status HeterMode::Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) {
  const auto [sparse, dense] = SplitGradients(grads);
  if (sparse.empty()) {
    return InvalidArgument(
        "mode hybrid needs a network with sparse gradients, but this network has none [TD1113]; "
        "hint: set model argument sparse=1 or distributed=1");
  }
  TD_RETURN_IF_ERROR(joined_.dense().programs->Distribute(program, dense));
  return trains() ? joined_.tables().programs->Distribute(program, sparse) : OkStatus();
}

}  // namespace

HeterOptions HeterOptionsOf(const JobConfig& config, const RankInfo& rank,
                            const CommonOptions& common) {
  HeterOptions options;
  options.tables = PserverOptionsOf(config, rank, common);
  options.tables.common.ranks -= rank.heter_workers;
  options.sections = PipelineOptionsOf(config, rank, common);
  return options;
}

StatusOr<TrainingMode> MakeHeterMode(const HeterOptions& options) {
  TD_REQUIRE(options.sections.heter_workers > 0 && options.tables.common.ranks > 0 &&
             options.tables.common.ranks % options.sections.heter_workers == 0);
  TD_ASSIGN_OR_RETURN(TrainingMode sections, MakePipelineMode(options.sections));
  const auto mode = std::make_shared<HeterMode>(options, std::move(sections));
  const TrainingMode& tables = mode->joined().tables();
  const TrainingMode& dense = mode->joined().dense();
  TrainingMode made{.owner = mode,
                    .programs = mode.get(),
                    .membership = dense.membership,
                    .state = dense.state,
                    .steps = dense.steps,
                    .training = &mode->training(),
                    .evaluation = &mode->evaluation(),
                    .evaluation_part = dense.evaluation_part,
                    .micro_batches = dense.micro_batches};
  if (!mode->trains()) return made;
  made.membership = &mode->joined();
  made.state = &mode->joined();
  made.steps = &mode->joined();
  made.tables = tables.tables;
  made.calls = tables.calls;
  return made;
}

}  // namespace tandem::trainer
