// The parsed attributes of fused_elemwise_activation and its gradient.
#pragma once

#include <string_view>
#include <utility>

#include "kernels/ops/core/op.h"
#include "kernels/ops/elementwise/elementwise.h"

namespace tandem {

enum class FusedAct : uint8_t { kRelu, kScale };

struct FusedAdd {
  FusedAct act;
  bool act_first;  // true: X + act(Y); false: act(X + Y)
  float scale;
};

// INVALID_ARGUMENT: `functors` is unknown.
StatusOr<FusedAdd> FusedAddOf(const OpView& view);

// Returns the attribute's value for an activation combined with elementwise_add; "": there is none.
std::string FunctorsOf(std::string_view activation, bool act_first);

}  // namespace tandem
