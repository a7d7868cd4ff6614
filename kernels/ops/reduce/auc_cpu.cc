#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t rows, columns, buckets;
};

// Returns the area under the curve. Adds trapezoids, from the highest probability to the lowest.
double Area(const int64_t* pos, const int64_t* neg, int64_t buckets) {
  double true_positive = 0, false_positive = 0, area = 0;
  for (int64_t b = buckets; b-- > 0;) {
    const auto p = static_cast<double>(pos[b]), n = static_cast<double>(neg[b]);
    area += n * (true_positive + p / 2);
    true_positive += p;
    false_positive += n;
  }
  if (true_positive == 0 || false_positive == 0) return 0.5;
  return area / (true_positive * false_positive);
}

Status Run(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  int64_t* counts[2] = {static_cast<int64_t*>(args.out[2]), static_cast<int64_t*>(args.out[1])};
  for (const int label : {0, 1}) {
    const auto* before = static_cast<const int64_t*>(args.in[label == 1 ? 2 : 3]);
    if (before != counts[label]) std::copy_n(before, s.buckets, counts[label]);
  }
  for (int64_t r = 0; r < s.rows; ++r) {
    const float p = InF32(args, 0)[r * s.columns + s.columns - 1];
    if (!(p >= 0.0f && p <= 1.0f)) {
      return InvalidArgument(
          "row %d: the probability is %g, expected 0 to 1 [TD1210]; hint: if it is NaN, lower the "
          "learning rate, or set check_nan_inf, which names the first operator with a NaN",
          r, p);
    }
    if (labels[r] != 0 && labels[r] != 1) {
      return InvalidArgument("row %d: the label is %d, expected 0 or 1", r, labels[r]);
    }
    const auto bucket = static_cast<int64_t>(p * static_cast<float>(s.buckets - 1));
    ++counts[labels[r]][bucket];
  }
  *OutF32(args, 0) = static_cast<float>(Area(counts[1], counts[0], s.buckets));
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.in(0).shape.rank() == 2 && view.in(1).dtype == DType::kI64);
  TD_REQUIRE(view.in(2).shape == view.in(3).shape && view.in(2).dtype == DType::kI64);
  return MakeKernel<State, Run>({view.in(0).shape[0], view.in(0).shape[1], view.in(2).shape[0]});
}

}  // namespace

constinit const KernelList kAucCpu = {{"plain", Prepare}};

}  // namespace tandem::ops
