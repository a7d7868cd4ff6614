// The table of all operators. The table is explicit, because static registration in static
// libraries can lose entries without an error.
#include <string>
#include <vector>

#include "common/base/nearest.h"
#include "kernels/ops/comm.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

// The definitions of all operators, sorted by type in ASCII order.
const OpDef* const kOps[] = {
    &kAccuracy,
    &kAdagrad,
    &kAdam,
    &kAdamax,
    &kAdaptiveSteps,
    &kAllGatherSelected,
    &kAllReduceBegin,
    &kAllReduceEnd,
    &kAllReduceSum,
    &kAuc,
    &kBatchNorm,
    &kBatchNormGrad,
    &kBatchNormGradSums,
    &kBatchNormMerge,
    &kBatchNormMoments,
    &kBroadcast,
    &kBroadcastParams,
    &kBufferedMomentum,
    &kRankReduceSum,
    &kCast,
    &kCastGrad,
    &kCheckFiniteAndUnscale,
    &kClip,
    &kClipByGlobalNorm,
    &kClipByNorm,
    &kClipGrad,
    &kConcat,
    &kConcatGrad,
    &kConv2d,
    &kConv2dGrad,
    &kConv2dRelu,
    &kConv2dTranspose,
    &kConv2dTransposeGrad,
    &kDecayedAdagrad,
    &kDgcCompress,
    &kDgcUpdate,
    &kDropout,
    &kElementwiseAdd,
    &kElementwiseAddGrad,
    &kElementwiseDiv,
    &kElementwiseDivGrad,
    &kElementwiseMax,
    &kElementwiseMaxGrad,
    &kElementwiseMul,
    &kElementwiseMulGrad,
    &kElementwiseSub,
    &kElementwiseSubGrad,
    &kEveryNth,
    &kFc,
    &kFcGrad,
    &kFillConstant,
    &kFtrl,
    &kFusedAttention,
    &kFusedAttentionGrad,
    &kFusedBnAddActivation,
    &kFusedBnAddActivationGrad,
    &kFusedElementwise,
    &kFusedElemwiseActivation,
    &kFusedElemwiseActivationGrad,
    &kGelu,
    &kGeluGrad,
    &kGeoExchange,
    &kHuberLoss,
    &kHuberLossGrad,
    &kL1Loss,
    &kL1LossGrad,
    &kLamb,
    &kLarsMomentum,
    &kLayerNorm,
    &kLayerNormGrad,
    &kLookupTable,
    &kLookupTableGrad,
    &kLookupTableSparseGrad,
    &kMatmul,
    &kMean,
    &kMeanGrad,
    &kMomentum,
    &kPool2d,
    &kPool2dGrad,
    &kPrefetchRows,
    &kPullRows,
    &kPushPull,
    &kPushRows,
    &kRecvV2,
    &kReduceMax,
    &kReduceMaxGrad,
    &kReduceMean,
    &kReduceMeanGrad,
    &kReduceSum,
    &kReduceSumGrad,
    &kRegularize,
    &kRelu,
    &kReluGrad,
    &kReorder,
    &kReshape,
    &kReshapeGrad,
    &kRmsprop,
    &kSampleImage,
    &kScale,
    &kSequencePool,
    &kSequencePoolGrad,
    &kSendV2,
    &kSgd,
    &kSigmoid,
    &kSigmoidGrad,
    &kSigmoidXent,
    &kSigmoidXentGrad,
    &kSlice,
    &kSliceGrad,
    &kSoftmax,
    &kSoftmaxGrad,
    &kSoftmaxXent,
    &kSoftmaxXentGrad,
    &kSparseRowsToDense,
    &kSplit,
    &kSplitGrad,
    &kSquareErrorCost,
    &kSquareErrorCostGrad,
    &kSum,
    &kSumSparseRows,
    &kTanh,
    &kTanhGrad,
    &kTranspose,
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
  return NotFound("unknown operator \"%s\" [TD1204]%s", std::string(type),
                  OrDidYouMean(type, names));
}

}  // namespace tandem::ops
