#include <cstring>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/dnnl_program.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/shape/copy_parts.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  int64_t blocks, plane;  // number of matrices, each of kLayoutBlock planes, and elements per plane
  bool from, to;          // true if the layout of the input (from) or of the output (to) is blocked
  int parts;
};

// Converts between NCHW and the blocked layout. Each block of channels is a matrix [16, plane] in
// NCHW and the transposed matrix in the blocked layout.
Status Run(State& s, const KernelArgs& args) {
  const float* x = InF32(args, 0);
  float* out = OutF32(args, 0);
  if (s.from == s.to) {
    const auto bytes = static_cast<size_t>(s.blocks * s.plane) * sizeof(float);
    std::memcpy(out, x, bytes);
    return OkStatus();
  }
  const int64_t rows = s.from ? s.plane : kLayoutBlock, cols = s.from ? kLayoutBlock : s.plane;
  ParallelFor(s.parts, s.blocks, [&](int, int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      s.loops.transpose(x + b * rows * cols, out + b * rows * cols, rows, cols);
    }
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const Shape& x = view.in(0).shape;
  TD_REQUIRE(view.out(0).bytes() == view.in(0).bytes());
  TD_ASSIGN_OR_RETURN(const ImageLayout from_layout, LayoutOf(view, "from", x));
  TD_ASSIGN_OR_RETURN(const ImageLayout to_layout, LayoutOf(view, "to", x));
  if (from_layout == ImageLayout::kLast || to_layout == ImageLayout::kLast) {
    return Unimplemented("this kernel supports only conversions between NCHW and nChw16c");
  }
  const bool from = from_layout == ImageLayout::kBlocked, to = to_layout == ImageLayout::kBlocked;
  // A conversion between equal layouts is a copy, for any number of channels.
  const int64_t block = from == to ? 1 : kLayoutBlock;
  return MakeKernel<State, Run>(
      {BestLoops(), x[0] * x[1] / block, x[2] * x[3], from, to, PartsFor(ctx.threads, x.numel())});
}

// ---- oneDNN -------------------------------------------------------------------------------------

Status RunDnnl(DnnlProgram& program, const KernelArgs& args) { return program.Run(args); }

StatusOr<Kernel> PrepareDnnl(const OpView& view, const PrepareContext& ctx) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  const TensorDesc& x = view.in(0);
  if (x.shape.numel() == 0) return Unimplemented("this kernel does not support empty tensors");
  TD_ASSIGN_OR_RETURN(const ImageLayout from, LayoutOf(view, "from", x.shape));
  TD_ASSIGN_OR_RETURN(const ImageLayout to, LayoutOf(view, "to", x.shape));
  const auto dims = x.shape.dims();
  const std::vector<int64_t> sizes(dims.begin(), dims.end());
  TD_ASSIGN_OR_RETURN(DnnlProgram program, BuildDnnl(ctx, [&](DnnlProgram& p) {
                        const DnnlType type = DnnlTypeOf(x.dtype);
                        p.Copy(p.In(0, ImageDesc(sizes, from, type)),
                               p.Out(0, ImageDesc(sizes, to, type)));
                      }));
  const size_t scratch = program.scratch_bytes();
  return MakeKernel<DnnlProgram, RunDnnl>(std::move(program), scratch);
}

// ---- Images of any type, between any two layouts ------------------------------------------------

struct StridedState {
  StridedCopy copy;
  int threads;
};

Status RunStrided(StridedState& s, const KernelArgs& args) {
  s.copy.Run(args.in[0], args.out[0], s.threads);
  return OkStatus();
}

StatusOr<Kernel> PrepareStrided(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const CopyParts copies, ReorderParts(view));
  TD_REQUIRE(copies.parts.size() == 1);
  return MakeKernel<StridedState, RunStrided>({copies.parts[0].copy, ctx.threads});
}

}  // namespace

constinit const KernelList kReorderCpu = {
    {"vector", F32Alone<Prepare>}, {"onednn", PrepareDnnl}, {"strided", PrepareStrided}};

}  // namespace tandem::ops
