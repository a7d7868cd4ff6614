#include <cstring>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/image_layout.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

struct State {
  const Loops& loops;
  int64_t blocks, plane;  // matrices of kLayoutBlock planes
  bool from, to;          // blocked?
  int parts;
};

// Each block of channels is a matrix [16, plane] in the one layout and its transpose in the other.
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
  TD_ASSIGN_OR_RETURN(const bool from, IsBlocked(view, "from", x));
  TD_ASSIGN_OR_RETURN(const bool to, IsBlocked(view, "to", x));
  // Plain to plain: any number of channels, one copy.
  const int64_t block = from == to ? 1 : kLayoutBlock;
  return MakeKernel<State, Run>(
      {BestLoops(), x[0] * x[1] / block, x[2] * x[3], from, to, PartsFor(ctx.threads, x.numel())});
}

}  // namespace

std::vector<KernelImpl> ReorderCpu() { return {{"vector", Prepare}}; }

}  // namespace tandem
