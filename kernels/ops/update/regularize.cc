// Definition of regularize, which adds the derivative of L1 and L2 penalties to the gradient. The
// penalty is l2/2 |p|^2 + l1 |p|_1, as in PaddlePaddle's L1Decay and L2Decay.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view, 2));
  if (view.has_in(2)) {
    TD_RETURN_IF_ERROR(NeedRank(view, 0, "Param", 2));
    TD_RETURN_IF_ERROR(NeedSparseRows(view, 1, 2, view.in(0).shape[1]));
  } else {
    TD_RETURN_IF_ERROR(NeedSame(view, 0, "Param", 1, "Grad"));
  }
  outputs[0] = view.in(1);
  return OkStatus();
}

}  // namespace

constinit const OpDef kRegularize = {
    .type = "regularize",
    .doc =
        "GradOut = Grad + l2 Param + l1 sign(Param). With Rows, Grad is sparse and the penalty is "
        "that of its rows alone.",
    .inputs = {{"Param"}, {"Grad"}, {"Rows", Arity::kOptional}},
    .outputs = {{"GradOut"}},
    .attrs = {{"l1", 0.0, "strength of the 1-norm"}, {"l2", 0.0, "strength of the 2-norm"}},
    .infer = Infer,
    .cpu = &kRegularizeCpu,
    .inplace = {{0, 1}},
};

}  // namespace tandem::ops
