#include <cmath>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  int64_t rows, classes, ignore;
};

Status CheckLabel(const State& s, int64_t row, int64_t label) {
  if (label == s.ignore || (label >= 0 && label < s.classes)) return OkStatus();
  return InvalidArgument("row %d has the label %d, expected 0 to %d or ignore_index %d [TD2004]",
                         row, label, s.classes - 1, s.ignore);
}

// Computes loss = log(sum exp(x - max)) - (x[label] - max) for each row. This form never takes the
// logarithm of a probability that underflowed.
Status Run(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  for (int64_t r = 0; r < s.rows; ++r) {
    TD_RETURN_IF_ERROR(CheckLabel(s, r, labels[r]));
    const float* x = InF32(args, 0) + r * s.classes;
    float* softmax = OutF32(args, 0) + r * s.classes;
    const float max = s.loops.max(x, s.classes);
    const float at_label = labels[r] == s.ignore ? max : x[labels[r]];
    s.loops.exp_shifted(x, max, softmax, s.classes);
    const float sum = s.loops.sum(softmax, s.classes);
    s.loops.scale(softmax, 1.0f / sum, 0.0f, softmax, s.classes);
    if (args.out[1] != nullptr) {
      OutF32(args, 1)[r] = labels[r] == s.ignore ? 0.0f : std::log(sum) - (at_label - max);
    }
  }
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  for (int64_t r = 0; r < s.rows; ++r) {
    TD_RETURN_IF_ERROR(CheckLabel(s, r, labels[r]));
    const float* softmax = InF32(args, 0) + r * s.classes;
    float* out = OutF32(args, 0) + r * s.classes;
    if (labels[r] == s.ignore) {
      std::fill_n(out, s.classes, 0.0f);
      continue;
    }
    const float g = InF32(args, 2)[r];
    const float at_label = softmax[labels[r]];
    s.loops.scale(softmax, g, 0.0f, out, s.classes);
    out[labels[r]] = (at_label - 1.0f) * g;
  }
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  TD_REQUIRE(x.rank() == 2 && view.in(1).dtype == DType::kI64);
  TD_REQUIRE(view.in(1).shape.numel() == x[0]);
  return MakeKernel<State, Body>({BestLoops(), x[0], x[1], view.attr<int64_t>("ignore_index")});
}

}  // namespace

constinit const KernelList kSoftmaxXentCpu = {{"vector", Prepare<Run>}};
constinit const KernelList kSoftmaxXentGradCpu = {{"vector", Prepare<RunGrad>}};

}  // namespace tandem::ops
