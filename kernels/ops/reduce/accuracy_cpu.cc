#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t rows, classes, k;
};

// Returns true if the label's element is among the k largest of the row: if fewer than k elements
// precede the label's element. An element precedes the label's element if it is larger, or if it is
// equal and has a smaller index.
bool Among(const float* row, const State& s, int64_t label) {
  if (label < 0 || label >= s.classes || row[label] != row[label]) return false;
  int64_t larger = 0;
  for (int64_t c = 0; c < s.classes; ++c) {
    larger += row[c] > row[label] || (row[c] == row[label] && c < label) ? 1 : 0;
  }
  return larger < s.k;
}

Status Run(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  int32_t correct = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float* row = InF32(args, 0) + r * s.classes;
    correct += Among(row, s, labels[r]) ? 1 : 0;
  }
  if (args.out[0] != nullptr) {
    *OutF32(args, 0) = static_cast<float>(correct) / static_cast<float>(s.rows);
  }
  if (args.out[1] != nullptr) *static_cast<int32_t*>(args.out[1]) = correct;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.in(0).shape.rank() == 2 && view.in(1).dtype == DType::kI64);
  TD_REQUIRE(view.in(1).shape.numel() == view.in(0).shape[0]);
  return MakeKernel<State, Run>(
      {view.in(0).shape[0], view.in(0).shape[1], view.attr<int64_t>("k")});
}

}  // namespace

constinit const KernelList kAccuracyCpu = {{"plain", Prepare}};

}  // namespace tandem::ops
