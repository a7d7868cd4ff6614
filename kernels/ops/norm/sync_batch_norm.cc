// Operators for batch normalisation over the samples of several ranks (the pass sync_batch_norm).
// Each rank writes its moments or sums to a tensor that is then summed over the ranks. Moments are
// joined as in Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
// Sample Variances", 1979. The moments of a rank are weighted with its number of samples. Therefore
// the ranks may have different numbers of samples.
#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/norm/batch_norm.h"

namespace tandem::ops {
namespace {

Status InferMoments(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  const auto rank = view.attr<int64_t>("rank"), ranks = view.attr<int64_t>("ranks");
  if (ranks < 1 || ranks > 65536 || rank < 0 || rank >= ranks) {
    return view.Error(absl::StrFormat("rank=%d is out of range: there are %d ranks", rank, ranks));
  }
  outputs[0] = {DType::kF32, {ranks, 2 * s.channels + 1}};
  return OkStatus();
}

Status InferMerge(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Moments", 2));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "Mean", 1));
  TD_RETURN_IF_ERROR(NeedSame(view, 1, "Mean", 2, "Variance"));
  const Shape& moments = view.in(0).shape;
  if (moments[0] < 1 || moments[1] != 2 * view.in(1).shape[0] + 1) {
    return view.Error("input Moments must have the shape [ranks, 2 * channels + 1]");
  }
  for (TensorDesc& output : outputs) output = view.in(1);
  return OkStatus();
}

Status InferGradSums(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  if (view.in(1).shape != Shape{s.channels}) {
    return view.Error(absl::StrFormat("input SavedMean must have the shape [%d]", s.channels));
  }
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 2, "Y@GRAD"));
  if (view.has_in(3)) TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 3, "Y"));
  outputs[0] = {DType::kF32, {2 * s.channels + 1}};
  return OkStatus();
}

}  // namespace

constinit const OpDef kBatchNormMoments = {
    .type = "batch_norm_moments",
    .doc =
        "Row `rank` of Out [ranks, 2c+1]: the number of images n, then mean and variance of each "
        "channel of X [n,c,...]; other rows are 0, so the sum over the ranks holds all.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"rank", int64_t{0}, "the row of this rank"},
              {"ranks", int64_t{1}, "rows"},
              LayoutAttr("data_layout", "layout of X: NCHW or nChw16c")},
    .infer = InferMoments,
    .cpu = &kBatchNormMomentsCpu,
};

constinit const OpDef kBatchNormMerge = {
    .type = "batch_norm_merge",
    .doc =
        "Mean and variance over the samples of all rows of Moments, each weighted by its number, "
        "and the next step of the running statistics: MeanOut = momentum Mean + (1 - momentum) "
        "BatchMean, VarianceOut likewise.",
    .inputs = {{"Moments"}, {"Mean"}, {"Variance"}},
    .outputs = {{"BatchMean"}, {"BatchVariance"}, {"MeanOut"}, {"VarianceOut"}},
    .attrs = {{"momentum", 0.9, "share of the running statistics that stays"}},
    .infer = InferMerge,
    .cpu = &kBatchNormMergeCpu,
    .inplace = {{2, 1}, {3, 2}},
};

constinit const OpDef kBatchNormGradSums = {
    .type = "batch_norm_grad_sums",
    .doc =
        "Out [2c+1]: the number of images, then for each channel the sums of g and of g (X - "
        "SavedMean), where g is Y@GRAD, or 0 where Y is given and not above 0.",
    .inputs = {{"X"}, {"SavedMean"}, {"Y@GRAD"}, {"Y", Arity::kOptional}},
    .outputs = {{"Out"}},
    .attrs = {LayoutAttr("data_layout", "layout of X, Y and Y@GRAD: NCHW or nChw16c")},
    .infer = InferGradSums,
    .cpu = &kBatchNormGradSumsCpu,
};

}  // namespace tandem::ops
