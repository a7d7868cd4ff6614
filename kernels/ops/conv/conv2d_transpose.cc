// The operator conv2d_transpose, which is the input gradient of a convolution. Source: Zeiler et
// al., "Deconvolutional Networks", CVPR 2010. Slots and attributes are those of PaddlePaddle's
// conv2d_transpose.
#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<ConvShape> ConvTransposeShapeOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Input", 4));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "Filter", 4));
  TD_RETURN_IF_ERROR(NeedPair(view, "strides", 1));
  TD_RETURN_IF_ERROR(NeedPair(view, "paddings", 0));
  TD_RETURN_IF_ERROR(NeedPair(view, "dilations", 1));
  TD_RETURN_IF_ERROR(NeedPair(view, "output_padding", 0));
  const auto strides = view.attr<std::vector<int64_t>>("strides");
  const auto paddings = view.attr<std::vector<int64_t>>("paddings");
  const auto dilations = view.attr<std::vector<int64_t>>("dilations");
  const auto more = view.attr<std::vector<int64_t>>("output_padding");
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  ConvShape s{.batch = x[0], .in_c = 0, .out_c = x[1], .groups = view.attr<int64_t>("groups")};
  if (s.groups < 1 || s.groups > 1 << 20 || s.out_c % s.groups != 0 || w[0] != s.out_c) {
    return view.Error(absl::StrFormat("groups=%d must divide the %d output channels of Filter",
                                      s.groups, s.out_c));
  }
  s.in_c = w[1] * s.groups;
  for (int d = 0; d < 2; ++d) {
    s.out[d] = x[2 + d];
    s.kernel[d] = w[2 + d];
    s.stride[d] = strides[d];
    s.pad[d] = paddings[d];
    s.dilation[d] = dilations[d];
    s.in[d] = (s.out[d] - 1) * s.stride[d] - 2 * s.pad[d] + s.dilation[d] * (s.kernel[d] - 1) + 1 +
              more[d];
    if (s.out[d] < 1 || s.kernel[d] < 1 || s.in[d] < 1 || more[d] >= s.stride[d]) {
      return view.Error(
          absl::StrFormat("an image of size %d cannot be the convolution of an image of size %d "
                          "with kernel size %d and output_padding=%d",
                          s.out[d], s.in[d], s.kernel[d], more[d]));
    }
  }
  return s;
}

namespace {

Shape OutShape(const ConvShape& s) { return {s.batch, s.in_c, s.in[0], s.in[1]}; }

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvTransposeShapeOf(view));
  outputs[0] = {DType::kF32, OutShape(s)};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dw = ctx.InGrad(1);
  if (dx.empty() && dw.empty()) return;
  ctx.Append("conv2d_transpose_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dx}, {dw}},
             ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvTransposeShapeOf(view));
  if (view.in(2).shape != OutShape(s)) {
    return view.Error("input Output@GRAD must have the shape " + ToString(OutShape(s)));
  }
  outputs[0] = view.in(0);
  outputs[1] = view.in(1);
  return OkStatus();
}

constexpr int64_t kOnes[] = {1, 1}, kZeros[] = {0, 0};  // by dimension: vertical, horizontal

constexpr AttrList Attrs() {
  const std::span<const int64_t> ones = kOnes, zeros = kZeros;
  return {
      {"strides", ones, "of the convolution: vertical, horizontal"},
      {"paddings", zeros, "of the convolution: above and below, left and right"},
      {"dilations", ones, "of the convolution: vertical, horizontal"},
      {"output_padding", zeros, "rows and columns of Output beyond the least; below the strides"},
      {"groups", int64_t{1}, "output channel group g sees input channel group g alone"}};
}

}  // namespace

constinit const OpDef kConv2dTranspose = {
    .type = "conv2d_transpose",
    .doc =
        "What conv2d with these attributes and Filter [m,c/groups,kh,kw] would give back to its "
        "input if Input [n,m,h,w] were the gradient of its output: Output [n,c,oh,ow], oh = (h - "
        "1) "
        "stride - 2 padding + dilation (kh - 1) + 1 + output_padding.",
    .inputs = {{"Input"}, {"Filter"}},
    .outputs = {{"Output"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kConv2dTransposeCpu,
};

constinit const OpDef kConv2dTransposeGrad = {
    .type = "conv2d_transpose_grad",
    .doc = "Gradients of conv2d_transpose.",
    .inputs = {{"Input"}, {"Filter"}, {"Output@GRAD"}},
    .outputs = {{"Input@GRAD", Arity::kOptional}, {"Filter@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kConv2dTransposeGradCpu,
};

}  // namespace tandem::ops
