// Mixed precision: Micikevicius et al., "Mixed Precision Training", ICLR 2018. Products and the
// operators between them use 16-bit tensors. Parameters, optimizer, losses and all operators not
// known to be safe stay f32. The lists of operators are those of Paddle 2.0's fp16_lists.py.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Inserts casts into the forward pass, so that some operators compute in 16 bits. Operators of the
// white list get 16-bit inputs. An operator of the gray list gets 16-bit inputs if at least one
// operator that writes an input computes in 16 bits and no such operator computes in f32. All other
// operators get f32 inputs. A cast is inserted where the type of a variable changes, once per
// variable. Autodiff adds the gradients of the casts. INVALID_ARGUMENT, naming the operator: an
// operator of custom_white_list has no 16-bit form.
StatusOr<PassOutcome> CastToHalf(Program& program, PassContext& context);

// Removes casts of gradients. If the gradient of a parameter is one 16-bit tensor that a cast
// widens, the cast is removed. `context.grads` then names the 16-bit tensor: communication sends 16
// bits, and the optimizer widens the received values. Does not apply if gradients of several steps
// are summed, because these sums are f32.
StatusOr<PassOutcome> KeepHalfGradients(Program& program, PassContext& context);

// Inserts loss scaling. The gradient of the loss is multiplied by the variable "loss_scaling".
// Gradients are divided by this variable after communication, before clipping and the optimizer. If
// a gradient is not finite, the whole update is skipped (Op::run_if): parameters, slots and decay.
// With dynamic scaling, update_loss_scaling then changes the variable. After an allreduce all ranks
// have the same gradients, so they make the same decision. pservers apply every gradient that
// arrives. Therefore a trainer pushes zeros for all gradients if at least one of them is not
// finite.
StatusOr<PassOutcome> ScaleLoss(Program& program, PassContext& context);

inline constexpr char kLossScalingVar[] = "loss_scaling";

}  // namespace tandem::graph
