// Definition of auc: the area under the ROC curve, computed from histograms. Histograms can
// accumulate over batches and be added over ranks. The area is a sum of trapezoids, as in
// PaddlePaddle's auc operator.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in(0).dtype != DType::kF32 || view.in(0).shape.rank() != 2) {
    return view.Error("input Predict must be f32[batch,1] or f32[batch,2]");
  }
  const int64_t classes = view.in(0).shape[1];
  if (classes != 1 && classes != 2) return view.Error("input Predict must have one or two columns");
  TD_RETURN_IF_ERROR(NeedLabel(view, 1));
  const TensorDesc& buckets = view.in(2);
  if (buckets.dtype != DType::kI64 || buckets.shape.rank() != 1 || buckets.shape[0] < 2) {
    return view.Error("input StatPos must be i64[buckets] with at least two buckets");
  }
  TD_RETURN_IF_ERROR(NeedSame(view, 2, "StatPos", 3, "StatNeg"));
  outputs[0] = {DType::kF32, {1}};
  outputs[1] = outputs[2] = buckets;
  return OkStatus();
}

}  // namespace

constinit const OpDef kAuc = {
    .type = "auc",
    .doc =
        "Area under the ROC curve of all batches so far. Predict is the probability of label 1 "
        "(its last column); StatPos and StatNeg count labels 1 and 0 by bucket of probability and "
        "are carried on. 0.5 until both labels were seen.",
    .inputs = {{"Predict"}, {"Label"}, {"StatPos"}, {"StatNeg"}},
    .outputs = {{"AUC"}, {"StatPosOut"}, {"StatNegOut"}},
    .infer = Infer,
    .cpu = &kAucCpu,
    .inplace = {{1, 2}, {2, 3}},
};

}  // namespace tandem::ops
