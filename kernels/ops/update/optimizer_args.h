// Converts the attributes of the optimizers to the arguments of their formulas (formulas/update.h),
// for CPU and CUDA kernels.
#pragma once

#include <algorithm>
#include <string_view>

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/update_loops.h"

namespace tandem::ops {

// Returns true if an update with a sparse gradient changes all rows. A row that the gradient does
// not contain is then updated with a gradient of 0.
inline bool UpdatesEveryRow(const OpView& view) {
  const OpDef& def = *FindOp(view.op().type);
  const bool has_lazy = std::any_of(def.attrs.begin(), def.attrs.end(), [](const AttrDef& a) {
    return std::string_view(a.name) == "lazy_mode";
  });
  return has_lazy && !view.attr<bool>("lazy_mode");
}

inline UpdateArgs MomentumArgs(const OpView& view) {
  return {.mu = AttrF32(view, "mu"), .nesterov = view.attr<bool>("use_nesterov")};
}
// Returns the arguments of adam or lamb.
inline UpdateArgs AdamArgs(const OpView& view) {
  return {.beta1 = AttrF32(view, "beta1"),
          .beta2 = AttrF32(view, "beta2"),
          .epsilon = AttrF32(view, "epsilon"),
          .weight_decay = AttrF32(view, "weight_decay")};
}
inline UpdateArgs AdamaxArgs(const OpView& view) {
  return {.beta1 = AttrF32(view, "beta1"),
          .beta2 = AttrF32(view, "beta2"),
          .epsilon = AttrF32(view, "epsilon")};
}
inline UpdateArgs AdagradArgs(const OpView& view) { return {.epsilon = AttrF32(view, "epsilon")}; }
inline UpdateArgs DecayedAdagradArgs(const OpView& view) {
  return {.epsilon = AttrF32(view, "epsilon"), .decay = AttrF32(view, "decay")};
}
// Returns the arguments of rmsprop. INVALID_ARGUMENT: input MeanGrad is present without `centered`,
// or absent with `centered`.
inline StatusOr<UpdateArgs> RmspropArgs(const OpView& view) {
  constexpr size_t kMeanGrad = 4;
  if (view.has_in(kMeanGrad) != view.attr<bool>("centered")) {
    return view.Error(
        "input MeanGrad is required with centered=true, and not allowed with centered=false");
  }
  return UpdateArgs{.epsilon = AttrF32(view, "epsilon"),
                    .mu = AttrF32(view, "mu"),
                    .decay = AttrF32(view, "decay")};
}
inline UpdateArgs FtrlArgs(const OpView& view) {
  return {.l1 = AttrF32(view, "l1"), .l2 = AttrF32(view, "l2")};
}
inline UpdateArgs LarsArgs(const OpView& view) {
  return {.epsilon = AttrF32(view, "epsilon"),
          .mu = AttrF32(view, "mu"),
          .weight_decay = AttrF32(view, "weight_decay")};
}

}  // namespace tandem::ops
