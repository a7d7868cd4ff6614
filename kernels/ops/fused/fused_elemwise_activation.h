// What fused_elemwise_activation and its gradient compute, read from the attributes.
#pragma once

#include <string_view>
#include <utility>

#include "kernels/ops/core/op.h"
#include "kernels/ops/elementwise/elementwise.h"

namespace tandem {

enum class FusedAct : uint8_t { kRelu, kScale };

struct FusedAdd {
  FusedAct act;
  bool act_first;  // X + act(Y); else act(X + Y)
  float scale;
};

// INVALID_ARGUMENT when `functors` is none that exists.
StatusOr<FusedAdd> FusedAddOf(const OpView& view);

// The attribute's value for an activation beside elementwise_add, or "" when there is none.
std::string FunctorsOf(std::string_view activation, bool act_first);

}  // namespace tandem
