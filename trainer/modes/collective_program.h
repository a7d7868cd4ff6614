// Inserts the operators of collective mode into a rank's programs. Records which variables only
// some ranks store.
#pragma once

#include <optional>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/distribute/shard_params.h"
#include "kernels/graph/program.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/state/dgc_state.h"
#include "trainer/modes/state/fragment_state.h"
#include "trainer/modes/state/sharded_state.h"

namespace tandem::trainer {

class CollectiveProgram final : public ProgramShaper {
 public:
  // `options` must outlive this object.
  explicit CollectiveProgram(const CollectiveOptions& options) : options_(options) {}

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& given) override;
  Status DistributeForward(graph::Program& program) override { return SplitParams(program); }
  Status SplitParams(graph::Program& program) override;

  // Returns the optimizer slots that only their owners store.
  const ShardedState& slots() const { return slots_; }
  // Returns the parameters that only their owners store (sharding).
  const ShardedState& params() const { return params_; }
  std::optional<DgcState>& dgc() { return dgc_; }  // nullopt: no gradient is compressed
  // nullopt: the job averages no fragments (CollectiveOptions::fragments).
  std::optional<FragmentState>& fragments() { return fragments_; }
  bool spread() const { return options_.update_by_owner || options_.shard || dgc_ || fragments_; }

 private:
  Status DistributeGradients(graph::Program& program, const std::vector<graph::ParamGrad>& given);
  Status DistributeByOwner(graph::Program& program, const std::vector<graph::ParamGrad>& grads);
  Status DistributeFragments(graph::Program& program, const std::vector<graph::ParamGrad>& grads);
  Status DistributeCompressed(graph::Program& program, const std::vector<graph::ParamGrad>& grads);
  std::vector<std::vector<graph::ParamGrad>> Grouped(
      const graph::Program& program, const std::vector<graph::ParamGrad>& grads) const;

  // `group` returns the number of ranks among which the parameters are divided. `number` returns
  // this rank's number within its group.
  int group() const {
    return options_.shard && options_.shard->group > 0 ? options_.shard->group
                                                       : options_.common.ranks;
  }
  int number() const { return options_.common.rank % group(); }

  const CollectiveOptions& options_;
  graph::ParamOwners owners_;  // owner of each parameter; used with sharding
  ShardedState slots_, params_;
  std::optional<DgcState> dgc_;
  std::optional<FragmentState> fragments_;
};

}  // namespace tandem::trainer
