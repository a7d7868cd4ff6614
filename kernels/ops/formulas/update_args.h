// The arguments of the optimizers' formulas (update.h) that are the same for all elements.
#pragma once

namespace tandem::ops {

// Hyper-parameters of an optimizer step. Each optimizer reads only its own parameters.
struct UpdateArgs {
  float lr = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float mu = 0;     // share of the velocity that remains after a step
  float decay = 0;  // share of a running mean that remains after a step
  float l1 = 0, l2 = 0;
  float keep = 1;  // adam: factor for the parameter, 1 - lr weight_decay; lamb: see LambStep
  float weight_decay = 0;
  bool nesterov = false;
};

// Largest number of slots per parameter of any optimizer. Slots of one element are not included.
inline constexpr int kUpdateSlotsMax = 3;

}  // namespace tandem::ops
