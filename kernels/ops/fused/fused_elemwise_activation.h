// The parsed attributes of fused_elemwise_activation and its gradient.
#pragma once

#include <string_view>
#include <utility>

#include "kernels/ops/core/op.h"
#include "kernels/ops/elementwise/elementwise.h"

namespace tandem::ops {

enum class FusedAct : uint8_t { kRelu, kScale };

struct FusedAdd {
  FusedAct act;
  bool act_first;  // true: X + act(Y); false: act(X + Y)
  float scale;
};

// Returns the parsed attributes. INVALID_ARGUMENT: the value of `functors` is unknown.
StatusOr<FusedAdd> FusedAddOf(const OpView& view);

// Returns the value of the attribute `functors` for elementwise_add combined with `activation`.
// `act_first`: see FusedAdd. "": the operator does not support the activation.
std::string FunctorsOf(std::string_view activation, bool act_first);

}  // namespace tandem::ops
