// Definition of reorder, which converts images between layouts (image_layout.h). Passes insert a
// reorder where an operator needs an input in another layout.
#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "X", 4));
  TD_RETURN_IF_ERROR(LayoutOf(view, "from", view.in(0).shape).status());
  TD_RETURN_IF_ERROR(LayoutOf(view, "to", view.in(0).shape).status());
  return InferAnyFloat(view, outputs);
}

}  // namespace

constinit const OpDef kReorder = {
    .type = "reorder",
    .doc =
        "The same elements of X [n,c,h,w] in another layout; it has no gradient, because "
        "passes insert it after autodiff.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {LayoutAttr("from", "layout of X: NCHW, nChw16c or NHWC"),
              LayoutAttr("to", "layout of Out")},
    .infer = Infer,
    .cpu = &kReorderCpu,
};

}  // namespace tandem::ops
