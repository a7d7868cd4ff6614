#include "kernels/ops/product/matmul_dnnl.h"

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/dnnl_program.h"
#include "kernels/ops/product/bias_grad.h"
#include "kernels/ops/product/matmul.h"

namespace tandem::ops {
namespace {

using Desc = dnnl::memory::desc;

// Describes a matrix [rows, cols] to oneDNN. `transposed`: the matrix is stored in transposed form.
Desc Matrix(int64_t rows, int64_t cols, bool transposed, DnnlType type) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{cols, 1};
  return {{rows, cols}, type, strides};
}

using Product = MatmulSizes;

// Describes `batch` matrices [rows, cols], stored one after another, to oneDNN.
Desc Matrices(int64_t batch, int64_t rows, int64_t cols, bool transposed, DnnlType type) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{rows * cols, 1, rows}
                                                : dnnl::memory::dims{rows * cols, cols, 1};
  return {{batch, rows, cols}, type, strides};
}

// Appends the product out = op(x) op(y) to `program`. If `bias` >= 0, the product adds the bias to
// each row. x, y, bias and out are positions among the kernel's arguments. All tensors have type
// `t`, except bias, which is f32.
void AddProduct(DnnlProgram& program, const Product& p, DnnlType t, int x, int y, int bias,
                int out) {
  const bool one = p.batch == 1;
  const Desc dx = one ? Matrix(p.m, p.k, p.trans_x, t) : Matrices(p.batch, p.m, p.k, p.trans_x, t);
  const Desc dy = one ? Matrix(p.k, p.n, p.trans_y, t) : Matrices(p.batch, p.k, p.n, p.trans_y, t);
  const Desc dout = one ? Matrix(p.m, p.n, false, t) : Matrices(p.batch, p.m, p.n, false, t);
  const Desc db = Matrix(1, p.n, false, DnnlType::f32);
  dnnl::primitive_attr attr = UserScratchpad();
  if (p.alpha != 1.0f) attr.set_output_scales(0, {p.alpha});
  const auto desc =
      bias >= 0 ? dnnl::matmul::desc(dx, dy, db, dout) : dnnl::matmul::desc(dx, dy, dout);
  const dnnl::matmul::primitive_desc pd(desc, attr, program.engine());
  program.Add(dnnl::matmul(pd),
              {{DNNL_ARG_SRC, program.In(x, dx)},
               {DNNL_ARG_WEIGHTS, program.In(y, dy)},
               {DNNL_ARG_BIAS, bias >= 0 ? program.In(bias, db) : -1},
               {DNNL_ARG_DST, program.Out(out, dout)}},
              pd.scratchpad_desc());
}

Status CheckServed(const OpView& view) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  for (size_t i = 0; i < 2; ++i) {
    if (view.in(i).shape.numel() == 0)
      return Unimplemented("this kernel does not support an empty product");
  }
  return OkStatus();
}

Status Run(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

Kernel ToKernel(DnnlProgram program) {
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, Run>(std::move(program), scratch);
}

struct FcGradState {
  DnnlProgram program;
  BiasGrad bias;
};

Status RunFcGrad(FcGradState& s, const KernelArgs& args) {
  if (float* sum = OutF32(args, 2)) s.bias.Run(args.in[2], sum);
  return s.program.Run(args);
}

}  // namespace

StatusOr<Kernel> PrepareDnnlMatmul(const OpView& view, const PrepareContext& ctx) {
  TD_RETURN_IF_ERROR(CheckServed(view));
  TD_ASSIGN_OR_RETURN(const MatmulSizes product, MatmulSizesOf(view));
  TD_REQUIRE(product.batch * product.m * product.n == view.out(0).shape.numel());
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        AddProduct(p, product, DnnlTypeOf(view.in(0).dtype), 0, 1, -1, 0);
                      }));
  return ToKernel(std::move(program));
}

StatusOr<Kernel> PrepareDnnlFc(const OpView& view, const PrepareContext& ctx) {
  TD_RETURN_IF_ERROR(CheckServed(view));
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  TD_REQUIRE(x[1] == w[0]);
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        AddProduct(p, {1, x[0], w[1], x[1], false, false, 1.0f},
                                   DnnlTypeOf(view.in(0).dtype), 0, 1, view.has_in(2) ? 2 : -1, 0);
                      }));
  return ToKernel(std::move(program));
}

StatusOr<Kernel> PrepareDnnlFcGrad(const OpView& view, const PrepareContext& ctx) {
  TD_RETURN_IF_ERROR(CheckServed(view));
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  const int64_t m = x[0], k = x[1], n = w[1];
  TD_REQUIRE(w[0] == k && view.in(2).shape == Shape({m, n}));
  const DnnlType type = DnnlTypeOf(view.in(0).dtype);
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        if (view.has_out(0))
                          AddProduct(p, {1, m, k, n, false, true, 1.0f}, type, 2, 1, -1, 0);
                        if (view.has_out(1))
                          AddProduct(p, {1, k, n, m, true, false, 1.0f}, type, 0, 2, -1, 1);
                      }));
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<FcGradState, RunFcGrad>(
      {std::move(program), BiasGrad(view.in(2).dtype, m, n, ctx.threads)}, scratch);
}

}  // namespace tandem::ops
