// Definitions of the operators of deep gradient compression. Source: Lin, Han, Mao, Wang and Dally,
// "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training", ICLR
// 2018 (arXiv 1712.01887), algorithm 4.
#include "kernels/ops/update/dgc.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/formulas/dgc.h"

namespace tandem::ops {

int64_t SelectedOf(int64_t n, float sparsity) { return DgcSelectedOf(n, sparsity); }

StatusOr<int64_t> SelectionCapacity(const OpView& view, const char* name, int64_t words) {
  if (words % 2 == 1) return words / 2;
  return view.Error(absl::StrFormat(
      "%s: a selection has %d words, expected an odd number (kernels/ops/update/dgc.h)", name,
      words));
}

namespace {

Status InferCompress(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Grad", 1, "Velocity"));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "Grad", 2, "Residual"));
  TD_RETURN_IF_ERROR(NeedOne(view, 3, "Sparsity"));
  const int64_t n = view.in(0).shape.numel(), capacity = view.attr<int64_t>("capacity");
  if (n > std::numeric_limits<int32_t>::max()) {
    return view.Error(absl::StrFormat(
        "the gradient has %d elements, expected at most %d, because indices have 32 bits", n,
        std::numeric_limits<int32_t>::max()));
  }
  if (capacity < std::min<int64_t>(n, 1) || capacity > n) {
    return view.Error(absl::StrFormat("capacity=%d is out of range for %d elements", capacity, n));
  }
  outputs[0] = outputs[1] = view.in(0);
  outputs[2] = {DType::kI32, {SelectionWords(capacity)}};
  return OkStatus();
}

Status InferUpdate(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 1));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "Selections", 2));
  if (view.in(1).dtype != DType::kI32)
    return view.Error("input Selections must have element type i32");
  TD_RETURN_IF_ERROR(SelectionCapacity(view, "Selections", view.in(1).shape[1]).status());
  TD_RETURN_IF_ERROR(NeedOne(view, 2, "LearningRate"));
  outputs[0] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kDgcCompress = {
    .type = "dgc_compress",
    .doc =
        "VelocityOut = mu * Velocity + Grad; ResidualOut = Residual + VelocityOut, with "
        "use_nesterov Residual + Grad + mu * VelocityOut. Then the largest elements of ResidualOut "
        "by magnitude, of equal ones those with lower indices, go into Selected "
        "(kernels/ops/update/dgc.h), and both are 0 there. How many: numel * (1 - Sparsity), "
        "rounded, at "
        "least 1.",
    .inputs = {{"Grad"}, {"Velocity"}, {"Residual"}, {"Sparsity"}},
    .outputs = {{"VelocityOut"}, {"ResidualOut"}, {"Selected"}},
    .attrs = {{"mu", 0.9, "share of the velocity that stays"},
              {"use_nesterov", false, "look ahead"},
              {"capacity", int64_t{1}, "most elements that a Sparsity asks for"}},
    .infer = InferCompress,
    .cpu = &kDgcCompressCpu,
    .inplace = {{0, 1}, {1, 2}},
};

constinit const OpDef kDgcUpdate = {
    .type = "dgc_update",
    .doc =
        "ParamOut = Param - LearningRate * the elements of each row of Selections, one row after "
        "the other.",
    .inputs = {{"Param"}, {"Selections"}, {"LearningRate"}},
    .outputs = {{"ParamOut"}},
    .infer = InferUpdate,
    .cpu = &kDgcUpdateCpu,
    .inplace = {{0, 0}},
};

}  // namespace tandem::ops
