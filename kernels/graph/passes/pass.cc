// The table of passes: one entry per pass, in the order in which the passes of one stage run.
#include "kernels/graph/passes/pass.h"
#include "kernels/graph/passes/addto.h"
#include "kernels/graph/passes/amp.h"
#include "kernels/graph/passes/auto_fusion.h"
#include "kernels/graph/passes/block_layouts.h"
#include "kernels/graph/passes/first_state.h"
#include "kernels/graph/passes/fuse_bn_act.h"
#include "kernels/graph/passes/fuse_conv_act.h"
#include "kernels/graph/passes/fuse_elewise_add_act.h"
#include "kernels/graph/passes/fuse_optimizer.h"
#include "kernels/graph/passes/fuse_relu_depthwise_conv.h"
#include "kernels/graph/passes/fused_attention.h"
#include "kernels/graph/passes/gradient_merge.h"
#include "kernels/graph/passes/recompute.h"
#include "kernels/graph/passes/update_early.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

using S = DistributedStrategy;

// The knob cache_runtime_context has no effect. Without the knob, Paddle looks up variables by name
// in each run. Tandem looks up each variable once, when it makes the plan.
StatusOr<PassOutcome> CacheRuntimeContext(Program&, PassContext&) {
  return PassOutcome{0, "has no effect: a plan always looks up each variable once"};
}

const Pass kPasses[] = {
    {"fuse_relu_depthwise_conv",
     "relu is computed inside the depthwise convolution that follows it", PassStage::kForward,
     [](const S& s) { return s.build_strategy().fuse_relu_depthwise_conv(); },
     FuseReluDepthwiseConv},
    {"fuse_bn_act_ops", "batch_norm and the relu that follows it become one operator",
     PassStage::kForward, [](const S& s) { return s.build_strategy().fuse_bn_act_ops(); },
     FuseBnAct},
    {"fuse_bn_add_act_ops", "batch_norm, the addition of a residual and relu become one operator",
     PassStage::kForward, [](const S& s) { return s.build_strategy().fuse_bn_add_act_ops(); },
     FuseBnAddAct},
    {"fuse_elewise_add_act_ops", "an addition and the activation next to it become one operator",
     PassStage::kForward, [](const S& s) { return s.build_strategy().fuse_elewise_add_act_ops(); },
     FuseElewiseAddAct},
    {"fused_attention",
     "the products and the softmax of attention become one operator without a matrix of weights",
     PassStage::kForward, [](const S& s) { return s.build_strategy().fused_attention(); },
     FuseAttention},
    // The pass amp must run after the fusions, because the fusions do not know casts.
    {"amp", "products and the operators between them are computed with 16-bit tensors",
     PassStage::kForward, [](const S& s) { return s.amp(); }, CastToHalf},
    {"amp.gradients", "16-bit gradients are communicated without a cast", PassStage::kBackward,
     [](const S& s) { return s.amp(); }, KeepHalfGradients},
    {"recompute", "backward computes forward values again from the checkpoints",
     PassStage::kBackward, [](const S& s) { return s.recompute(); }, Recompute},
    {"enable_addto", "gradients with several sources are added in place", PassStage::kBackward,
     [](const S& s) { return s.build_strategy().enable_addto(); }, AddInPlace},
    {"amp.loss_scaling", "the loss is scaled, and a step with an overflow is skipped",
     PassStage::kUpdate, [](const S& s) { return s.amp(); }, ScaleLoss},
    {"gradient_merge", "gradients of several steps or parts of a batch are summed",
     PassStage::kUpdate,
     [](const S& s) { return s.gradient_merge() || s.batch_merge_repeats() > 1; }, MergeGradients},
    {"deterministic", "batch_norm keeps the state of the first part of the step",
     PassStage::kUpdate,
     [](const S& s) { return s.deterministic() && s.batch_merge_repeats() > 1; }, KeepFirstState},
    {"fuse_elewise_add_act_ops.conv",
     "on a device a convolution and the relu that follows it become one operator",
     PassStage::kUpdate, [](const S& s) { return s.build_strategy().fuse_elewise_add_act_ops(); },
     FuseConvAct},
    {"enable_auto_fusion", "chains of elementwise operators become one loop", PassStage::kUpdate,
     [](const S& s) { return s.build_strategy().enable_auto_fusion(); }, FuseChains},
    {"fuse_all_optimizer_ops", "updates of one kind become one operator", PassStage::kUpdate,
     [](const S& s) { return s.build_strategy().fuse_all_optimizer_ops(); }, FuseOptimizer},
    {"enable_backward_optimizer_op_deps", "false: each parameter is updated as early as possible",
     PassStage::kUpdate,
     [](const S& s) { return !s.build_strategy().enable_backward_optimizer_op_deps(); },
     UpdateEarly},
    {"cache_runtime_context", "variables are looked up once", PassStage::kUpdate,
     [](const S& s) { return s.build_strategy().cache_runtime_context(); }, CacheRuntimeContext},
    // The passes use_mkldnn and amp.channels_last run last: other passes do not know layouts.
    {"use_mkldnn", "convolutions and the operators between them use oneDNN's blocked layout",
     PassStage::kUpdate, [](const S& s) { return s.runtime_flags().use_mkldnn(); }, BlockLayouts},
    {"amp.channels_last", "16-bit images on a device have their channels last", PassStage::kUpdate,
     [](const S& s) { return s.amp(); }, ChannelsLast},
};

}  // namespace

std::span<const Pass> AllPasses() { return kPasses; }

}  // namespace tandem::graph
