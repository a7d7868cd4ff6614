// What the formulas of the optimizers (update.h) take besides elements.
#pragma once

namespace tandem {

// Hyper-parameters of a step; each optimizer reads those it has.
struct UpdateArgs {
  float lr = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float mu = 0;     // share of a velocity that stays
  float decay = 0;  // share of a running mean that stays
  float l1 = 0, l2 = 0;
  float keep = 1;  // the parameter is multiplied by it first: 1 - lr weight_decay
  float weight_decay = 0;
  bool nesterov = false;
};

// Tensors of the parameter's shape that an optimizer keeps, at most.
inline constexpr int kUpdateSlotsMax = 3;

}  // namespace tandem
