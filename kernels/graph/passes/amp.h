// Mixed precision: Micikevicius et al., "Mixed Precision Training", ICLR 2018. Products and what
// lies between them are computed with 16-bit tensors; parameters, optimizer, losses and whatever
// nobody has found safe stay f32. Which operators are which: Paddle 2.0's fp16_lists.py.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Forward: operators of the white list get 16-bit inputs; of the gray list, when an operator before
// them is 16-bit and none is f32; all others f32 inputs. Casts are put in where that changes a
// variable's type, once per variable; autodiff then gives them gradients. INVALID_ARGUMENT naming
// the operator for a custom_white_list that asks for what has no 16-bit form.
StatusOr<PassOutcome> CastToHalf(Program& program, PassContext& context);

// Gradients: a parameter whose gradient is one 16-bit tensor, widened by a cast, leaves backward
// in 16 bits (`context.grads` then names that): communication carries it so, the optimizer widens
// it. Not when steps are merged: sums over steps are f32.
StatusOr<PassOutcome> KeepHalfGradients(Program& program, PassContext& context);

// Update: the gradient of the loss is multiplied by the variable "loss_scaling", gradients are
// divided by it again behind communication and in front of clipping and optimizer. With a gradient
// that is not finite all of the update is left out (Op::run_if), parameters, slots and decay alike;
// with dynamic scaling the scale then follows the trajectory of update_loss_scaling. Behind an
// allreduce all ranks see the same gradients, so they agree. pservers update whatever arrives: to
// them zeros are sent instead.
StatusOr<PassOutcome> ScaleLoss(Program& program, PassContext& context);

inline constexpr char kLossScalingVar[] = "loss_scaling";

}  // namespace tandem
