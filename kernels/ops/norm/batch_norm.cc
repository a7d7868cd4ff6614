// Definitions of batch_norm and fused_bn_add_activation. Source: Ioffe and Szegedy, "Batch
// Normalization", ICML 2015, algorithms 1 and 2. Slots and defaults are those of PaddlePaddle's
// batch_norm. As in Paddle, the running variance uses the biased batch variance, with divisor m;
// PyTorch uses the divisor m - 1. The fused operator is Paddle's operator of the same name, but its
// input Z is optional.
#include "kernels/ops/norm/batch_norm.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<BatchNormShape> BatchNormShapeOf(const OpView& view) {
  // X, Z, Y and their gradients may have 16 bits. Values that exist once per channel are f32.
  const std::string& type = view.op().type;
  TD_RETURN_IF_ERROR(!type.ends_with("_grad")     ? NeedFloats(view, {0, 5})
                     : type.starts_with("fused_") ? NeedFloats(view, {0, 4, 5})
                                                  : NeedFloats(view, {0, 4}));
  const Shape& x = view.in(0).shape;
  if (x.rank() < 2)
    return view.Error(absl::StrFormat(
        "input X has %d dimensions, expected at least 2 (batch and channels)", x.rank()));
  if (x.numel() == 0) return view.Error("X has 0 elements, expected at least 1");
  TD_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(view, "data_layout", x));
  return BatchNormShape{x[0], x[1], x.numel(2, x.rank()), layout};
}

namespace {

// Checks that inputs `first` to `last` have the shape [channels].
Status NeedPerChannel(const OpView& view, int64_t channels, size_t first, size_t last) {
  for (size_t i = first; i <= last; ++i) {
    if (view.in(i).shape != Shape{channels}) {
      return view.Error(absl::StrFormat("input %d must have the shape [%d]", i, channels));
    }
  }
  return OkStatus();
}

Status CheckEpsilon(const OpView& view) {
  const double epsilon = view.attr<double>("epsilon"), momentum = view.attr<double>("momentum");
  if (!(epsilon > 0 && epsilon <= 1e-3)) {
    return view.Error(
        absl::StrFormat("attribute epsilon=%g must be above 0 and at most 0.001", epsilon));
  }
  if (momentum >= 0 && momentum <= 1) return OkStatus();
  return view.Error(absl::StrFormat("attribute momentum=%g must be from 0 to 1", momentum));
}

// Inputs: X, Scale, Bias, Mean, Variance, and optionally Z. Outputs: Y, MeanOut, VarianceOut,
// SavedMean, SavedInvStd.
Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  TD_RETURN_IF_ERROR(NeedPerChannel(view, s.channels, 1, 4));
  TD_RETURN_IF_ERROR(CheckEpsilon(view));
  if (view.has_in(5)) TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 5, "Z"));
  outputs[0] = view.in(0);
  for (int i = 1; i < 5; ++i) outputs[i] = {DType::kF32, {s.channels}};
  return OkStatus();
}

void AppendGrad(GradContext& ctx, bool fused) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dscale = ctx.InGrad(1), dbias = ctx.InGrad(2);
  const std::string dz = fused && !ctx.In(5).empty() ? ctx.InGrad(5) : "";
  if (dx.empty() && dscale.empty() && dbias.empty() && dz.empty()) return;
  std::vector<std::vector<std::string>> in = {
      {ctx.In(0)}, {ctx.In(1)}, {ctx.Out(3)}, {ctx.Out(4)}, {g}};
  std::vector<std::vector<std::string>> out = {{dx}, {dscale}, {dbias}};
  if (fused) {
    in.push_back({ctx.Out(0)});
    out.push_back({dz});
  }
  in.push_back({});  // Sums, which is absent
  ctx.Append(ctx.op().type + "_grad", std::move(in), std::move(out), ctx.op().attrs);
}

void Grad(GradContext& ctx) { AppendGrad(ctx, false); }
void FusedGrad(GradContext& ctx) { AppendGrad(ctx, true); }

// Inputs: X, Scale, SavedMean, SavedInvStd, Y@GRAD, optionally Y, and Sums. Outputs: X@GRAD,
// Scale@GRAD, Bias@GRAD, and optionally Z@GRAD.
Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape s, BatchNormShapeOf(view));
  TD_RETURN_IF_ERROR(NeedPerChannel(view, s.channels, 1, 3));
  TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 4, "Y@GRAD"));
  const bool fused = outputs.size() > 3;
  if (fused) TD_RETURN_IF_ERROR(NeedSame(view, 0, "X", 5, "Y"));
  const size_t sums = fused ? 6 : 5;
  if (view.has_in(sums) && view.in(sums).shape != Shape{2 * s.channels + 1}) {
    return view.Error(absl::StrFormat("input Sums must have the shape [%d]", 2 * s.channels + 1));
  }
  outputs[0] = view.in(0);
  outputs[1] = outputs[2] = view.in(1);
  if (fused) outputs[3] = view.in(0);
  return OkStatus();
}

constexpr AttrList Attrs() {
  return {
      {"momentum", 0.9, "share of the running statistics that stays"},
      {"epsilon", 1e-5, "added to the variance"},
      {"is_test", false, "normalise by the running statistics, which stay as they are"},
      LayoutAttr("data_layout", "layout of X, Y, Z and their gradients: NCHW, nChw16c or NHWC")};
}

}  // namespace

constinit const OpDef kBatchNorm = {
    .type = "batch_norm",
    .doc =
        "Y = Scale (X - mean) / sqrt(variance + epsilon) + Bias for each channel of X [n,c,...]; "
        "mean and variance (divided by the count) over the batch, or with is_test Mean and "
        "Variance. MeanOut = momentum Mean + (1 - momentum) mean, VarianceOut likewise.",
    .inputs = {{"X"}, {"Scale"}, {"Bias"}, {"Mean"}, {"Variance"}},
    .outputs = {{"Y"}, {"MeanOut"}, {"VarianceOut"}, {"SavedMean"}, {"SavedInvStd"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kBatchNormCpu,
    .inplace = {{0, 0}, {1, 3}, {2, 4}},
};

constinit const OpDef kBatchNormGrad = {
    .type = "batch_norm_grad",
    .doc =
        "Gradients of batch_norm; with is_test the statistics are constants. Sums: "
        "batch_norm_grad_sums of all ranks, where the statistics are those of all; Scale@GRAD and "
        "Bias@GRAD are this rank's.",
    .inputs =
        {{"X"}, {"Scale"}, {"SavedMean"}, {"SavedInvStd"}, {"Y@GRAD"}, {"Sums", Arity::kOptional}},
    .outputs = {{"X@GRAD", Arity::kOptional},
                {"Scale@GRAD", Arity::kOptional},
                {"Bias@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kBatchNormGradCpu,
    .inplace = {{0, 4}},
};

constinit const OpDef kFusedBnAddActivation = {
    .type = "fused_bn_add_activation",
    .doc = "relu(batch_norm(X) + Z), or relu(batch_norm(X)) without Z; slots as in batch_norm.",
    .inputs = {{"X"}, {"Scale"}, {"Bias"}, {"Mean"}, {"Variance"}, {"Z", Arity::kOptional}},
    .outputs = {{"Y"}, {"MeanOut"}, {"VarianceOut"}, {"SavedMean"}, {"SavedInvStd"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = FusedGrad,
    .cpu = &kFusedBnAddActivationCpu,
    .inplace = {{0, 0}, {0, 5}, {1, 3}, {2, 4}},
};

constinit const OpDef kFusedBnAddActivationGrad = {
    .type = "fused_bn_add_activation_grad",
    .doc = "Gradients of fused_bn_add_activation.",
    .inputs = {{"X"},
               {"Scale"},
               {"SavedMean"},
               {"SavedInvStd"},
               {"Y@GRAD"},
               {"Y"},
               {"Sums", Arity::kOptional}},
    .outputs = {{"X@GRAD", Arity::kOptional},
                {"Scale@GRAD", Arity::kOptional},
                {"Bias@GRAD", Arity::kOptional},
                {"Z@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kFusedBnAddActivationGradCpu,
    .inplace = {{0, 4}, {3, 4}},
};

}  // namespace tandem::ops
