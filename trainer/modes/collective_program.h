// Inserts the operators of collective mode into a rank's programs, and records the state that then
// exists on some ranks only.
#pragma once

#include <optional>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/passes/shard_params.h"
#include "kernels/graph/program.h"
#include "trainer/modes/dgc_state.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/sharded_state.h"

namespace tandem::trainer {

class CollectiveProgram {
 public:
  explicit CollectiveProgram(const ModeOptions& options) : options_(options) {}

  // Implement the methods of ModeDriver with the same names. Call them in this order.
  Status Distribute(Program& program, const std::vector<ParamGrad>& given);
  Status DistributeForward(Program& program) const;
  Status Shard(Program& program) const;

  const ShardedState& slots() const { return slots_; }    // used with update_by_owner
  const ShardedState& params() const { return params_; }  // used with sharding
  std::optional<DgcState>& dgc() { return dgc_; }         // set if any gradient is compressed
  bool spread() const { return options_.update_by_owner || options_.shard || dgc_; }

 private:
  Status DistributeGradients(Program& program, const std::vector<ParamGrad>& given);
  Status DistributeByOwner(Program& program, const std::vector<ParamGrad>& grads);
  Status DistributeCompressed(Program& program, const std::vector<ParamGrad>& grads);
  std::vector<std::vector<ParamGrad>> Grouped(const Program& program,
                                              const std::vector<ParamGrad>& grads) const;

  // Number of ranks among which parameters are divided, and this rank's number among them.
  int group() const {
    return options_.shard && options_.shard->group > 0 ? options_.shard->group : options_.ranks;
  }
  int number() const { return options_.rank % group(); }

  const ModeOptions& options_;
  ParamOwners owners_;  // used with sharding
  ShardedState slots_, params_;
  std::optional<DgcState> dgc_;
};

}  // namespace tandem::trainer
