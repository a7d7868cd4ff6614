#include "kernels/ops/product/matmul.h"

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

StatusOr<MatmulSizes> MatmulSizesOf(const OpView& view) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {0, 1}));
  const Shape &x = view.in(0).shape, &y = view.in(1).shape;
  const int rank = x.rank();
  if (rank < 2 || y.rank() != rank) {
    return view.Error(absl::StrFormat(
        "inputs X and Y must have the same number of dimensions, at least 2, but have %d and %d",
        rank, y.rank()));
  }
  for (int d = 0; d < rank - 2; ++d) {
    if (x[d] == y[d]) continue;
    return view.Error(absl::StrFormat("batch dimension %d is %d in X and %d in Y", d, x[d], y[d]));
  }
  const bool tx = view.attr<bool>("trans_x"), ty = view.attr<bool>("trans_y");
  const int rows = rank - 2, cols = rank - 1;
  const int64_t k = x[tx ? rows : cols];
  if (k != y[ty ? cols : rows]) {
    return view.Error(absl::StrFormat("trans_x=%d, trans_y=%d; inner dimensions %d and %d differ",
                                      tx, ty, k, y[ty ? cols : rows]));
  }
  return MatmulSizes{x.numel(0, rows),
                     x[tx ? cols : rows],
                     y[ty ? rows : cols],
                     k,
                     tx,
                     ty,
                     static_cast<float>(view.attr<double>("alpha"))};
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_ASSIGN_OR_RETURN(const MatmulSizes s, MatmulSizesOf(view));
  outputs[0] = view.in(0);
  const int rank = outputs[0].shape.rank();
  outputs[0].shape[rank - 2] = s.m;
  outputs[0].shape[rank - 1] = s.n;
  return OkStatus();
}

void Multiply(GradContext& ctx, const std::string& x, const std::string& y, bool trans_x,
              bool trans_y, const std::string& out) {
  AttrMap attrs = ctx.op().attrs;
  attrs["trans_x"] = trans_x;
  attrs["trans_y"] = trans_y;
  ctx.Append("matmul", {{x}, {y}}, {{out}}, attrs);
}

bool Flag(const Op& op, const char* name) {
  const auto it = op.attrs.find(name);
  return it != op.attrs.end() && std::get<bool>(it->second);
}

// Writes the gradients. Let G be the gradient of op(X) op(Y). The gradient of op(X) is alpha G
// op(Y)^T. The gradient of op(Y) is alpha op(X)^T G. If an operand was transposed, its gradient is
// transposed too.
void Grad(GradContext& ctx) {
  const bool tx = Flag(ctx.op(), "trans_x"), ty = Flag(ctx.op(), "trans_y");
  const std::string g = ctx.OutGrad(0);
  if (g.empty()) return;
  if (const std::string dx = ctx.InGrad(0); !dx.empty()) {
    tx ? Multiply(ctx, ctx.In(1), g, ty, true, dx) : Multiply(ctx, g, ctx.In(1), false, !ty, dx);
  }
  if (const std::string dy = ctx.InGrad(1); !dy.empty()) {
    ty ? Multiply(ctx, g, ctx.In(0), true, tx, dy) : Multiply(ctx, ctx.In(0), g, !tx, false, dy);
  }
}

double Flops(const OpView& view) {
  const Shape& x = view.in(0).shape;
  const int inner = view.attr<bool>("trans_x") ? x.rank() - 2 : x.rank() - 1;
  return 2.0 * static_cast<double>(view.out(0).shape.numel() * x[inner]);
}

}  // namespace

constinit const OpDef kMatmul = {
    .type = "matmul",
    .doc =
        "Out = alpha op(X) op(Y), op the identity or the transposition of the last two "
        "dimensions; the others are a batch, the same in X and Y.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = {{"trans_x", false, "transpose X"},
              {"trans_y", false, "transpose Y"},
              {"alpha", 1.0, "factor"}},
    .infer = Infer,
    .grad = Grad,
    .flops = Flops,
    .cpu = &kMatmulCpu,
};

}  // namespace tandem::ops
