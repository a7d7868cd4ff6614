// The operator dropout. Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural
// Networks from Overfitting", JMLR 2014. Elements are scaled during training ("upscale_in_train"),
// so that evaluation needs no dropout.
#include "kernels/ops/elementwise/dropout.h"

#include <cstring>

#include "common/base/rng.h"
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {

uint64_t DropoutName(std::string_view name) { return StableHash("dropout:" + std::string(name)); }

StatusOr<DropoutWords> DropoutWordsOf(const void* position, uint64_t name, int64_t n) {
  DropoutPosition at;
  std::memcpy(&at, position, sizeof(at));
  if (at.samples < 1 || n % at.samples != 0 || at.first_sample < 0) {
    return InvalidArgument(
        "input Position has %d samples from sample %d on, expected samples from 0 on and a number "
        "of samples that divides the %d elements of X",
        at.samples, at.first_sample, n);
  }
  const auto key = [](uint64_t of, int64_t counter) {
    const auto words = Philox(of, static_cast<uint64_t>(counter));
    return (uint64_t{words[1]} << 32) | words[0];
  };
  return DropoutWords{key(key(name, at.seed), at.step), static_cast<uint64_t>(at.first_sample) *
                                                            static_cast<uint64_t>(n / at.samples)};
}

namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedFloats(view, {0}, 1));
  if (view.in(1) != TensorDesc{DType::kI64, {4}})
    return view.Error("input Position must be i64[4]");
  const double p = view.attr<double>("dropout_prob");
  if (!(p >= 0 && p < 1)) {
    return view.Error(absl::StrFormat("dropout_prob=%g must be at least 0 and below 1", p));
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

// The gradient is a dropout with the same key and random numbers, so no mask is stored.
void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("dropout", {{g}, {ctx.In(1)}}, {{dx}}, ctx.op().attrs);
}

}  // namespace

constinit const OpDef kDropout = {
    .type = "dropout",
    .doc =
        "Out = X / (1 - dropout_prob), or 0 with that probability. What is dropped depends on "
        "name, seed, step, the sample's number in the global batch and the element's in the "
        "sample alone. Position: seed, step, first sample, samples of X.",
    .inputs = {{"X"}, {"Position"}},
    .outputs = {{"Out"}},
    .attrs = {{"dropout_prob", 0.5, "share of the elements that become 0"},
              {"name", std::string_view(), "operators of other names drop other elements"},
              {"is_test", false, "Out = X"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kDropoutCpu,
    .inplace = {{0, 0}},
};

}  // namespace tandem::ops
