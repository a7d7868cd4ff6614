#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedInts(view, "shape"));
  auto dims = view.attr<std::vector<int64_t>>("shape");
  const Shape& x = view.in(0).shape;
  int64_t known = 1;
  int computed = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == -1 && computed < 0) {
      computed = static_cast<int>(d);
      continue;
    }
    if (dims[d] == 0 && static_cast<int>(d) < x.rank()) dims[d] = x[static_cast<int>(d)];
    if (dims[d] < 0 || (dims[d] == 0 && x.numel() != 0) ||
        __builtin_mul_overflow(known, dims[d], &known)) {
      return view.Error(
          absl::StrFormat("attribute shape[%d] = %d is invalid: at most one dimension may be -1 "
                          "(computed), and 0 copies a dimension of X",
                          d, dims[d]));
    }
  }
  if (computed >= 0) {
    if (known == 0 || x.numel() % known != 0) {
      return view.Error(absl::StrFormat("%d elements cannot be divided into parts of %d elements",
                                        x.numel(), known));
    }
    dims[computed] = x.numel() / known;
  }
  const StatusOr<Shape> shape = ParseShape(dims);
  if (!shape.ok())
    return view.Error("attribute shape is invalid: " + std::string(shape.status().message()));
  if (shape->numel() != x.numel()) {
    return view.Error(absl::StrFormat("attribute shape %s has %d elements, but X has %d elements",
                                      ToString(*shape), shape->numel(), x.numel()));
  }
  outputs[0] = {view.in(0).dtype, *shape};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("reshape_grad", {{ctx.In(0)}, {g}}, {{dx}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in(0).dtype != view.in(1).dtype ||
      view.in(0).shape.numel() != view.in(1).shape.numel()) {
    return view.Error("inputs X and Out@GRAD must have the same type and number of elements");
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kReshape = {
    .type = "reshape",
    .doc = "The elements of X in another shape.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"shape", {}, "dimensions of Out; 0 copies X's, one -1 is computed"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kReshapeCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kReshapeGrad = {
    .type = "reshape_grad",
    .doc = "Out@GRAD in the shape of X. Of X the shape alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kReshapeGradCpu,
    .inplace = {{0, 1}},
};

}  // namespace tandem::ops
