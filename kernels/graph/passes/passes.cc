// The table of passes. One line per pass; the order is the order in which they run in their stage.
#include "kernels/graph/passes/fuse_elewise_add_act.h"
#include "kernels/graph/passes/fuse_optimizer.h"
#include "kernels/graph/passes/pass.h"
#include "proto/strategy.pb.h"

namespace tandem {
namespace {

using S = DistributedStrategy;

const Pass kPasses[] = {
    {"fuse_elewise_add_act_ops", "addition and the activation beside it become one operator",
     PassStage::kForward, [](const S& s) { return s.build_strategy().fuse_elewise_add_act_ops(); },
     FuseElewiseAddAct},
    {"fuse_all_optimizer_ops", "updates of one kind become one operator", PassStage::kUpdate,
     [](const S& s) { return s.build_strategy().fuse_all_optimizer_ops(); }, FuseOptimizer},
};

}  // namespace

std::span<const Pass> AllPasses() { return kPasses; }

}  // namespace tandem
