#include <cstring>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/elementwise/dropout.h"

namespace tandem::ops {

namespace {

struct State {
  const MathLoops& loops;
  int64_t n;
  uint64_t name;        // hash of the operator's name
  uint32_t drop_below;  // limit of DropBelow for the random words
  float scale;
  int parts;
};

Status Run(State& s, const KernelArgs& args) {
  TD_ASSIGN_OR_RETURN(const DropoutWords words, DropoutWordsOf(args.in[1], s.name, s.n));
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.dropout(InF32(args, 0) + begin, OutF32(args, 0) + begin, end - begin, words.key,
                    words.first + static_cast<uint64_t>(begin), s.drop_below, s.scale);
  });
  return OkStatus();
}

Status Copy(State& s, const KernelArgs& args) {
  if (args.out[0] != args.in[0] && s.n > 0) std::memcpy(args.out[0], args.in[0], s.n * 4);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const double p = view.attr<double>("dropout_prob");
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(p >= 0 && p < 1 && view.out(0).shape.numel() == n);
  const State state{BestMathLoops(),
                    n,
                    DropoutName(view.attr<std::string>("name")),
                    DropBelow(p),
                    KeptScale(p),
                    PartsFor(ctx.threads, 4 * n)};
  if (view.attr<bool>("is_test")) return MakeKernel<State, Copy>(state);
  return MakeKernel<State, Run>(state);
}

}  // namespace

constinit const KernelList kDropoutCpu = {{"vector", OrWidened<Prepare>}};

}  // namespace tandem::ops
