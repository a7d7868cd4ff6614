// The arguments of the optimizers' formulas (update.h) besides the elements.
#pragma once

namespace tandem {

// Hyper-parameters of a step. Each optimizer reads only those that it has.
struct UpdateArgs {
  float lr = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float mu = 0;     // share of the velocity that is kept
  float decay = 0;  // share of a running mean that is kept
  float l1 = 0, l2 = 0;
  float keep = 1;  // first factor for the parameter: 1 - lr weight_decay
  float weight_decay = 0;
  bool nesterov = false;
};

// Largest number of slots of the parameter's shape that an optimizer has.
inline constexpr int kUpdateSlotsMax = 3;

}  // namespace tandem
