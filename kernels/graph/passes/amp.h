// Mixed precision: Micikevicius et al., "Mixed Precision Training", ICLR 2018. Products and the
// operators between them use 16-bit tensors. Parameters, optimizer, losses and all operators not
// known to be safe stay f32. The lists of operators are those of Paddle 2.0's fp16_lists.py.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Forward pass. Operators of the white list get 16-bit inputs. Operators of the gray list do so if
// an operator before them is 16-bit and none is f32. All others get f32 inputs. A cast is inserted
// where the type of a variable changes, once per variable; autodiff gives the casts gradients.
// INVALID_ARGUMENT, naming the operator: custom_white_list contains an operator without a 16-bit
// form.
StatusOr<PassOutcome> CastToHalf(Program& program, PassContext& context);

// Gradient pass. If the gradient of a parameter is one 16-bit tensor widened by a cast, it leaves
// backward in 16 bits (`context.grads` then names the 16-bit tensor). Communication sends 16 bits
// and the optimizer widens them. Does not apply if steps are merged, because sums over steps are
// f32.
StatusOr<PassOutcome> KeepHalfGradients(Program& program, PassContext& context);

// Update pass. The gradient of the loss is multiplied by the variable "loss_scaling". Gradients are
// divided by it after communication, before clipping and optimizer. If a gradient is not finite,
// the whole update is skipped (Op::run_if): parameters, slots and decay. With dynamic scaling the
// scale then follows update_loss_scaling. After an allreduce all ranks see the same gradients and
// so make the same decision. pservers apply every gradient that arrives, so they are sent zeros
// instead.
StatusOr<PassOutcome> ScaleLoss(Program& program, PassContext& context);

inline constexpr char kLossScalingVar[] = "loss_scaling";

}  // namespace tandem
