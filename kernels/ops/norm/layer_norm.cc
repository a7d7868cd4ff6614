// Definition of layer_norm. Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

struct Rows {
  int64_t rows, n;
};

StatusOr<Rows> RowsOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  const Shape& x = view.in(0).shape;
  const int64_t axis = view.attr<int64_t>("begin_norm_axis");
  if (axis < 0 || axis >= x.rank()) {
    return view.Error(absl::StrFormat("begin_norm_axis=%d is out of range, expected 0 to %d", axis,
                                      x.rank() - 1));
  }
  if (!(view.attr<double>("epsilon") > 0)) return view.Error("attribute epsilon must be above 0");
  const int from = static_cast<int>(axis);
  const Rows rows{x.numel(0, from), x.numel(from, x.rank())};
  if (rows.n < 1) return view.Error("the rows of X have 0 elements, expected at least 1");
  return rows;
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Rows r, RowsOf(view));
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!view.has_in(i) || view.in(i).shape == Shape{r.n}) continue;
    return view.Error(
        absl::StrFormat("%s must have the shape [%d]", i == 1 ? "Scale" : "Bias", r.n));
  }
  outputs[0] = view.in(0);
  outputs[1] = outputs[2] = {DType::kF32, {r.rows}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0);
  const std::string dscale = ctx.In(1).empty() ? "" : ctx.InGrad(1);
  const std::string dbias = ctx.In(2).empty() ? "" : ctx.InGrad(2);
  if (dx.empty() && dscale.empty() && dbias.empty()) return;
  ctx.Append("layer_norm_grad", {{ctx.In(0)}, {ctx.In(1)}, {ctx.Out(1)}, {ctx.Out(2)}, {g}},
             {{dx}, {dscale}, {dbias}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const Rows r, RowsOf(view));
  if (view.has_in(1) && view.in(1).shape != Shape{r.n}) {
    return view.Error(absl::StrFormat("input Scale must have the shape [%d]", r.n));
  }
  for (const size_t i : {size_t{2}, size_t{3}}) {
    if (view.in(i).shape == Shape{r.rows}) continue;
    return view.Error(
        absl::StrFormat("%s must have the shape [%d]", i == 2 ? "Mean" : "Variance", r.rows));
  }
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 4, "Y@GRAD"));
  outputs[0] = view.in(0);
  outputs[1] = outputs[2] = {DType::kF32, {r.n}};
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {{"begin_norm_axis", int64_t{1}, "first dimension of a row; the ones before are the rows"},
          {"epsilon", 1e-5, "added to the variance"}};
}

}  // namespace

constinit const OpDef kLayerNorm = {
    .type = "layer_norm",
    .doc =
        "Y = (X - Mean) / sqrt(Variance + epsilon) * Scale + Bias, by rows; the variance is "
        "that of all n elements of a row, not n - 1.",
    .inputs = {{"X"}, {"Scale", Arity::kOptional}, {"Bias", Arity::kOptional}},
    .outputs = {{"Y"}, {"Mean"}, {"Variance"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kLayerNormCpu,
    .inplace = {{0, 0}},
};

constinit const OpDef kLayerNormGrad = {
    .type = "layer_norm_grad",
    .doc = "Gradients of layer_norm.",
    .inputs = {{"X"}, {"Scale", Arity::kOptional}, {"Mean"}, {"Variance"}, {"Y@GRAD"}},
    .outputs = {{"X@GRAD", Arity::kOptional},
                {"Scale@GRAD", Arity::kOptional},
                {"Bias@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kLayerNormGradCpu,
};

}  // namespace tandem::ops
