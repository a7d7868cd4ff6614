#include "kernels/ops/elementwise/elementwise.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<BroadcastShape> BroadcastShapeOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {0, 1, 2}));
  const Shape &x = view.in(0).shape, &y = view.in(1).shape;
  int64_t axis = view.attr<int64_t>("axis");
  if (axis == -1) axis = x.rank() - y.rank();
  if (axis < 0 || axis > x.rank() - y.rank()) {
    return view.Error(absl::StrFormat(
        "attribute axis=%d: the %d dimensions of Y do not fit the %d dimensions of X",
        view.attr<int64_t>("axis"), y.rank(), x.rank()));
  }
  const int from = static_cast<int>(axis), to = from + y.rank();
  for (int d = from; d < to; ++d) {
    if (x[d] != y[d - from]) {
      return view.Error(
          absl::StrFormat("attribute axis=%d: dimension %d of X is %d, dimension %d of Y is %d",
                          view.attr<int64_t>("axis"), d, x[d], d - from, y[d - from]));
    }
  }
  return BroadcastShape{x.numel(0, from), x.numel(from, to), x.numel(to, x.rank())};
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(BroadcastShapeOf(view).status());
  outputs[0] = view.in(0);
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dy = ctx.InGrad(1);
  if (dx.empty() && dy.empty()) return;
  ctx.Append(ctx.op().type + "_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dx}, {dy}},
             ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(BroadcastShapeOf(view).status());
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 2, "Out@GRAD"));
  outputs[0] = view.in(0);
  outputs[1] = view.in(1);
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {{"axis", int64_t{-1}, "dimension of X that meets Y's first; -1: the last ones meet"}};
}

constexpr SlotList GradInputs() { return {{"X"}, {"Y"}, {"Out@GRAD"}}; }
// Inputs of the gradients of sums and differences. These gradients use only the shapes of X and Y,
// not their values.
constexpr SlotList ShapeGradInputs() {
  return {{"X", Arity::kOne, true}, {"Y", Arity::kOne, true}, {"Out@GRAD"}};
}
constexpr SlotList GradOutputs() {
  return {{"X@GRAD", Arity::kOptional}, {"Y@GRAD", Arity::kOptional}};
}

}  // namespace

constinit const OpDef kElementwiseAdd = {
    .type = "elementwise_add",
    .doc = "Out = X + Y; Y's shape is a run of X's dimensions and is repeated over the others.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kElementwiseAddCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kElementwiseAddGrad = {
    .type = "elementwise_add_grad",
    .doc = "Gradients of elementwise_add.",
    .inputs = ShapeGradInputs(),
    .outputs = GradOutputs(),
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kElementwiseAddGradCpu,
    .inplace = {{0, 2}},
};

constinit const OpDef kElementwiseMul = {
    .type = "elementwise_mul",
    .doc = "Out = X * Y; Y's shape is a run of X's dimensions and is repeated over the others.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kElementwiseMulCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kElementwiseMulGrad = {
    .type = "elementwise_mul_grad",
    .doc = "Gradients of elementwise_mul.",
    .inputs = GradInputs(),
    .outputs = GradOutputs(),
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kElementwiseMulGradCpu,
};

constinit const OpDef kElementwiseSub = {
    .type = "elementwise_sub",
    .doc = "Out = X - Y; Y's shape is a run of X's dimensions and is repeated over the others.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kElementwiseSubCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kElementwiseSubGrad = {
    .type = "elementwise_sub_grad",
    .doc = "Gradients of elementwise_sub.",
    .inputs = ShapeGradInputs(),
    .outputs = GradOutputs(),
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kElementwiseSubGradCpu,
    .inplace = {{0, 2}},
};

constinit const OpDef kElementwiseDiv = {
    .type = "elementwise_div",
    .doc = "Out = X / Y; Y's shape is a run of X's dimensions and is repeated over the others.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kElementwiseDivCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kElementwiseDivGrad = {
    .type = "elementwise_div_grad",
    .doc = "Gradients of elementwise_div.",
    .inputs = GradInputs(),
    .outputs = GradOutputs(),
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kElementwiseDivGradCpu,
};

constinit const OpDef kElementwiseMax = {
    .type = "elementwise_max",
    .doc =
        "Out = the larger of X and Y; Y's shape is a run of X's dimensions and is repeated over "
        "the others.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kElementwiseMaxCpu,
    .inplace = {{0, 0}},
    .elementwise = true,
};

constinit const OpDef kElementwiseMaxGrad = {
    .type = "elementwise_max_grad",
    .doc = "Gradients of elementwise_max; of equal ones Y gets it.",
    .inputs = GradInputs(),
    .outputs = GradOutputs(),
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kElementwiseMaxGradCpu,
};

}  // namespace tandem::ops
