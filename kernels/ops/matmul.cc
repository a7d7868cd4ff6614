#include "kernels/ops/infer.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedRank(view, 0, "X", 2));
  TD_RETURN_IF_ERROR(NeedRank(view, 1, "Y", 2));
  const int tx = view.attr<bool>("trans_x"), ty = view.attr<bool>("trans_y");
  const Shape &x = view.in(0).shape, &y = view.in(1).shape;
  if (x[1 - tx] != y[ty]) {
    return view.Error(absl::StrFormat("trans_x=%d, trans_y=%d; inner dimensions %d and %d differ",
                                      tx, ty, x[1 - tx], y[ty]));
  }
  outputs[0] = {DType::kF32, {x[tx], y[1 - ty]}};
  return OkStatus();
}

void Multiply(GradContext& ctx, const std::string& x, const std::string& y, bool trans_x,
              bool trans_y, const std::string& out) {
  ctx.Append("matmul", {{x}, {y}}, {{out}}, {{"trans_x", trans_x}, {"trans_y", trans_y}});
}

bool Flag(const Op& op, const char* name) {
  const auto it = op.attrs.find(name);
  return it != op.attrs.end() && std::get<bool>(it->second);
}

// With G the gradient of op(X) op(Y): op(X)' = G op(Y)^T and op(Y)' = op(X)^T G, transposed again
// where the operand was.
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

}  // namespace

const OpDef kMatmul = {
    .type = "matmul",
    .doc = "Out = op(X) op(Y), op the identity or the transposition; two-dimensional.",
    .inputs = {{"X"}, {"Y"}},
    .outputs = {{"Out"}},
    .attrs = {{"trans_x", false, "transpose X"}, {"trans_y", false, "transpose Y"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = MatmulCpu(),
};

}  // namespace tandem
