#include "kernels/ops/conv/pool2d.h"

#include <algorithm>

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status FillWindow(const OpView& view, PoolShape& s) {
  TD_RETURN_IF_ERROR(NeedPair(view, "ksize", 1));
  TD_RETURN_IF_ERROR(NeedPair(view, "strides", 1));
  TD_RETURN_IF_ERROR(NeedPair(view, "paddings", 0));
  const auto ksize = view.attr<std::vector<int64_t>>("ksize");
  const auto strides = view.attr<std::vector<int64_t>>("strides");
  const auto paddings = view.attr<std::vector<int64_t>>("paddings");
  for (int d = 0; d < 2; ++d) {
    s.kernel[d] = ksize[d];
    s.stride[d] = strides[d];
    s.pad[d] = paddings[d];
    const int64_t room = s.in[d] + 2 * s.pad[d] - s.kernel[d];
    if (s.pad[d] >= s.kernel[d] || room < 0) {
      return view.Error(
          absl::StrFormat("a window of %d elements does not fit into %d elements with padding 2 x "
                          "%d, or covers only padding",
                          s.kernel[d], s.in[d], s.pad[d]));
    }
    s.out[d] = room / s.stride[d] + 1;
  }
  return OkStatus();
}

}  // namespace

StatusOr<PoolShape> PoolShapeOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {0, 1, 2}));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "X", 4));
  const Shape& x = view.in(0).shape;
  const auto type = view.attr<std::string>("pooling_type");
  TD_ASSIGN_OR_RETURN(const ImageLayout layout, LayoutOf(view, "data_layout", x));
  if (type != "max" && type != "avg") {
    return view.Error(
        absl::StrFormat("attribute pooling_type is \"%s\", expected \"max\" or \"avg\"", type));
  }
  PoolShape s{.planes = x[0] * x[1],
              .in = {x[2], x[3]},
              .out = {1, 1},
              .kernel = {x[2], x[3]},
              .stride = {1, 1},
              .pad = {0, 0},
              .max = type == "max",
              .exclusive = view.attr<bool>("exclusive"),
              .layout = layout};
  if (x[2] < 1 || x[3] < 1) return view.Error("X has height or width 0, expected at least 1");
  if (!view.attr<bool>("global_pooling")) TD_RETURN_IF_ERROR(FillWindow(view, s));
  return s;
}

namespace {

Shape OutShape(const OpView& view, const PoolShape& s) {
  return {view.in(0).shape[0], view.in(0).shape[1], s.out[0], s.out[1]};
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  outputs[0] = {view.in(0).dtype, OutShape(view, s)};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (dx.empty()) return;
  ctx.Append("pool2d_grad", {{ctx.In(0)}, {ctx.Out(0)}, {g}}, {{dx}}, ctx.op().attrs);
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  const Shape out = OutShape(view, s);
  if (view.in(1).shape != out || view.in(2).shape != out) {
    return view.Error("inputs Out and Out@GRAD must have the shape " + ToString(out));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

constexpr int64_t kOnes[] = {1, 1}, kZeros[] = {0, 0};  // by dimension: vertical, horizontal

constexpr AttrList Attrs() {
  const std::span<const int64_t> none, ones = kOnes, zeros = kZeros;
  return {{"pooling_type", std::string_view("max"), "max or avg"},
          {"ksize", none, "size of the window: vertical, horizontal; needed unless global_pooling"},
          {"strides", ones, "steps of the window: vertical, horizontal"},
          {"paddings", zeros, "added on each side; never chosen by max"},
          {"global_pooling", false, "one window over the whole plane"},
          {"exclusive", true, "averages leave the padding out of the count"},
          LayoutAttr("data_layout", "layout of X, Out and their gradients: NCHW, nChw16c or NHWC")};
}

}  // namespace

constinit const OpDef kPool2d = {
    .type = "pool2d",
    .doc = "Largest element or average of each window of X [n,c,h,w].",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = Attrs(),
    .infer = Infer,
    .grad = Grad,
    .cpu = &kPool2dCpu,
};

constinit const OpDef kPool2dGrad = {
    .type = "pool2d_grad",
    .doc = "Gradient of pool2d; of several largest elements the first in row-major order gets it.",
    .inputs = {{"X"}, {"Out"}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .attrs = Attrs(),
    .infer = InferGrad,
    .cpu = &kPool2dGradCpu,
};

}  // namespace tandem::ops
