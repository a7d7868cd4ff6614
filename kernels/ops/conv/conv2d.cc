#include "kernels/ops/conv/conv2d.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

namespace {

// Sets the members of `s` that come from the attributes for layouts, algorithm and relu.
Status FillHow(const OpView& view, ConvShape& s) {
  TD_ASSIGN_OR_RETURN(s.in_layout, LayoutOf(view, "input_layout", view.in(0).shape));
  const Shape out{s.batch, s.out_c, s.out[0], s.out[1]};
  TD_ASSIGN_OR_RETURN(s.out_layout, LayoutOf(view, "output_layout", out));
  const auto algorithm = view.attr<std::string>("algorithm");
  s.winograd = algorithm == "winograd";
  if (!s.winograd && algorithm != "direct") {
    return view.Error(absl::StrFormat(
        "attribute algorithm is \"%s\", expected \"direct\" or \"winograd\"", algorithm));
  }
  s.relu_first = view.attr<bool>("fuse_relu_before_depthwise_conv");
  if (s.relu_first && (s.groups != s.in_c || s.in_c < 2)) {
    return view.Error(absl::StrFormat(
        "fuse_relu_before_depthwise_conv needs one group per channel, but there are %d groups",
        s.groups));
  }
  return OkStatus();
}

}  // namespace

StatusOr<ConvShape> ConvShapeOf(const OpView& view) {
  // Bias and its gradient are always f32.
  const bool grad = view.op().type.ends_with("_grad");
  TD_RETURN_IF_ERROR(grad ? NeedFloats(view, {0, 1, 2}) : NeedFloats(view, {0, 1}));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "Input", 4));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "Filter", 4));
  TD_RETURN_IF_ERROR(NeedPair(view, "strides", 1));
  TD_RETURN_IF_ERROR(NeedPair(view, "paddings", 0));
  TD_RETURN_IF_ERROR(NeedPair(view, "dilations", 1));
  const auto strides = view.attr<std::vector<int64_t>>("strides");
  const auto paddings = view.attr<std::vector<int64_t>>("paddings");
  const auto dilations = view.attr<std::vector<int64_t>>("dilations");
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  ConvShape s{.batch = x[0], .in_c = x[1], .out_c = w[0], .groups = view.attr<int64_t>("groups")};
  if (s.groups < 1 || s.in_c % s.groups != 0 || s.out_c % s.groups != 0) {
    return view.Error(
        absl::StrFormat("groups=%d must divide the %d input channels and the %d output channels",
                        s.groups, s.in_c, s.out_c));
  }
  if (w[1] != s.in_c / s.groups) {
    return view.Error(absl::StrFormat(
        "input Filter must have %d input channels per group, but has %d", s.in_c / s.groups, w[1]));
  }
  for (int d = 0; d < 2; ++d) {
    s.in[d] = x[2 + d];
    s.kernel[d] = w[2 + d];
    s.stride[d] = strides[d];
    s.pad[d] = paddings[d];
    s.dilation[d] = dilations[d];
    const int64_t extent = s.dilation[d] * (s.kernel[d] - 1) + 1;
    const int64_t room = s.in[d] + 2 * s.pad[d] - extent;
    if (s.kernel[d] < 1 || room < 0) {
      return view.Error(absl::StrFormat(
          "a kernel that covers %d elements does not fit into %d elements with padding 2 x %d",
          extent, s.in[d], s.pad[d]));
    }
    s.out[d] = room / s.stride[d] + 1;
  }
  TD_RETURN_IF_ERROR(FillHow(view, s));
  return s;
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  if (view.has_in(2) && view.in(2).shape != Shape{s.out_c}) {
    return view.Error(absl::StrFormat("input Bias must have the shape [%d]", s.out_c));
  }
  outputs[0] = {view.in(0).dtype, {s.batch, s.out_c, s.out[0], s.out[1]}};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  const std::string dx = ctx.InGrad(0), dw = ctx.InGrad(1);
  const std::string db = ctx.In(2).empty() ? "" : ctx.InGrad(2);
  if (dx.empty() && dw.empty() && db.empty()) return;
  ctx.Append("conv2d_grad", {{ctx.In(0)}, {ctx.In(1)}, {g}}, {{dx}, {dw}, {db}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  const Shape out{s.batch, s.out_c, s.out[0], s.out[1]};
  if (view.in(2).shape != out) {
    return view.Error("input Output@GRAD must have the shape " + ToString(out));
  }
  outputs[0] = view.in(0);
  outputs[1] = view.in(1);
  outputs[2] = {DType::kF32, {s.out_c}};
  return OkStatus();
}

double Flops(const OpView& view) {
  const auto s = ConvShapeOf(view);
  return s.ok() ? 2.0 * static_cast<double>(s->batch * s->out_c * s->out_plane() * s->taps()) : 0;
}

// The input gradient and the filter gradient each need as many operations as the forward pass.
double FlopsGrad(const OpView& view) { return (view.has_out(0) + view.has_out(1)) * Flops(view); }

constexpr int64_t kOnes[] = {1, 1}, kZeros[] = {0, 0};  // by dimension: vertical, horizontal

constexpr AttrList Attrs() {
  const std::span<const int64_t> ones = kOnes, zeros = kZeros;
  return {{"strides", ones, "steps of the window: vertical, horizontal"},
          {"paddings", zeros, "zeros added on each side: above and below, left and right"},
          {"dilations", ones, "distance of the kernel's elements: vertical, horizontal"},
          {"groups", int64_t{1}, "output channel group g sees input channel group g alone"},
          LayoutAttr("input_layout", "layout of Input and its gradient: NCHW, nChw16c or NHWC"),
          LayoutAttr("output_layout", "layout of Output and its gradient"),
          {"algorithm", std::string_view("direct"),
           "direct, or winograd where it serves: Lavin and Gray, CVPR 2016; fewer products, errors "
           "of about 1e-5 of the largest result"},
          {"fuse_relu_before_depthwise_conv", false,
           "Output is that of relu(Input); for as many groups as channels alone"}};
}

}  // namespace

constinit const OpDef kConv2d = {
    .type = "conv2d",
    .doc = "Cross-correlation of Input [n,c,h,w] with Filter [m,c/groups,kh,kw], plus Bias [m].",
    .inputs = {{"Input"}, {"Filter"}, {"Bias", Arity::kOptional}},
    .outputs = {{"Output"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .flops = Flops,
    .cpu = &kConv2dCpu,
};

constinit const OpDef kConv2dRelu = {
    .type = "conv2d_relu",
    .doc =
        "relu of the output of conv2d. It has no gradient, because passes replace both operators "
        "by "
        "it after autodiff.",
    .inputs = {{"Input"}, {"Filter"}, {"Bias", Arity::kOptional}},
    .outputs = {{"Output"}},
    .attrs = Attrs(),
    .infer = Infer,
    .flops = Flops,
    .cpu = &kConv2dReluCpu,
};

constinit const OpDef kConv2dGrad = {
    .type = "conv2d_grad",
    .doc = "Gradients of conv2d.",
    .inputs = {{"Input"}, {"Filter"}, {"Output@GRAD"}},
    .outputs = {{"Input@GRAD", Arity::kOptional},
                {"Filter@GRAD", Arity::kOptional},
                {"Bias@GRAD", Arity::kOptional}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .flops = FlopsGrad,
    .cpu = &kConv2dGradCpu,
};

}  // namespace tandem::ops
