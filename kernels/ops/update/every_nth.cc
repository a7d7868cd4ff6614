// Definition of every_nth, which counts steps for operators of every n-th step (Op::run_if).
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedOne(view, 0, "Counter"));
  if (view.has_in(1)) TD_RETURN_IF_ERROR(NeedOne(view, 1, "N"));
  const auto n = view.attr<int64_t>("n");
  // The counter is an f32, which cannot count beyond 2^24.
  if (n < 1 || n > (1 << 24)) return view.Error("attribute n must be from 1 to 16777216");
  outputs[0] = outputs[1] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kEveryNth = {
    .type = "every_nth",
    .doc =
        "CounterOut = Counter + 1, Due = 0; at n CounterOut = 0 and Due = 1. While Counter is "
        "negative Due is 1. With N, that is n.",
    .inputs = {{"Counter"}, {"N", Arity::kOptional}},
    .outputs = {{"CounterOut"}, {"Due"}},
    .attrs = {{"n", int64_t{1}, "steps from one to the next"}},
    .infer = Infer,
    .cpu = &kEveryNthCpu,
    .inplace = {{0, 0}},
};

}  // namespace tandem::ops
