#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Out", 2));
  TD_RETURN_IF_ERROR(NeedLabel(view, 1));
  if (view.in(0).shape.numel() == 0) return view.Error("Out has 0 elements, expected at least 1");
  const auto k = view.attr<int64_t>("k");
  if (k < 1 || k > view.in(0).shape[1]) {
    return view.Error(
        absl::StrFormat("attribute k=%d must be from 1 to %d", k, view.in(0).shape[1]));
  }
  outputs[0] = {DType::kF32, {1}};
  outputs[1] = {DType::kI32, {1}};
  return OkStatus();
}

}  // namespace

constinit const OpDef kAccuracy = {
    .type = "accuracy",
    .doc =
        "Share and number of the rows of Out whose element at Label is among the k largest; of "
        "equal "
        "ones the first is the larger.",
    .inputs = {{"Out"}, {"Label"}},
    .outputs = {{"Accuracy"}, {"Correct", Arity::kOptional}},
    .attrs = {{"k", int64_t{1}, "how many of the largest count"}},
    .infer = Infer,
    .cpu = &kAccuracyCpu,
};

}  // namespace tandem::ops
