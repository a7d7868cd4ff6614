// Every operator there is. Explicit on purpose: static registration loses entries of static
// libraries silently.
#include <string>
#include <vector>

#include "common/base/nearest.h"
#include "kernels/ops/comm.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

// By type, in ASCII order.
const OpDef* const kOps[] = {
    &kAccuracy,
    &kAdagrad,
    &kAdam,
    &kAdamax,
    &kAllReduceSum,
    &kAuc,
    &kBatchNorm,
    &kBatchNormGrad,
    &kBroadcast,
    &kCheckFiniteAndUnscale,
    &kClip,
    &kClipByGlobalNorm,
    &kClipByNorm,
    &kClipGrad,
    &kConv2d,
    &kConv2dGrad,
    &kDecayedAdagrad,
    &kElementwiseAdd,
    &kElementwiseAddGrad,
    &kElementwiseMul,
    &kElementwiseMulGrad,
    &kEveryNth,
    &kFc,
    &kFcGrad,
    &kFillConstant,
    &kFtrl,
    &kFusedBnAddActivation,
    &kFusedBnAddActivationGrad,
    &kFusedElementwise,
    &kFusedElemwiseActivation,
    &kFusedElemwiseActivationGrad,
    &kLamb,
    &kLarsMomentum,
    &kLookupTable,
    &kLookupTableGrad,
    &kLookupTableSparseGrad,
    &kMatmul,
    &kMean,
    &kMeanGrad,
    &kMomentum,
    &kPool2d,
    &kPool2dGrad,
    &kPull,
    &kPush,
    &kRegularize,
    &kRelu,
    &kReluGrad,
    &kReshape,
    &kReshapeGrad,
    &kRmsprop,
    &kScale,
    &kSequencePool,
    &kSequencePoolGrad,
    &kSgd,
    &kSigmoidXent,
    &kSigmoidXentGrad,
    &kSoftmaxXent,
    &kSoftmaxXentGrad,
    &kSparseRowsToDense,
    &kSum,
    &kSumSparseRows,
    &kUpdateLossScaling,
};

}  // namespace

std::span<const OpDef* const> AllOps() { return kOps; }

const OpDef* FindOp(std::string_view type) {
  for (const OpDef* op : kOps) {
    if (type == op->type) return op;
  }
  return nullptr;
}

StatusOr<const OpDef*> GetOp(std::string_view type) {
  if (const OpDef* op = FindOp(type)) return op;
  std::vector<std::string> names;
  for (const OpDef* op : kOps) names.emplace_back(op->type);
  return NotFound("unknown operator \"%s\"%s", std::string(type), OrDidYouMean(type, names));
}

}  // namespace tandem
