// Accumulates the gradients of several steps. Communication and update run only with the last of
// them.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Implements gradient_merge (k_steps steps of the job) and batch_merge_repeats (parts of one step's
// batch). Every dense gradient gets a state variable "w@GRAD@MERGED" as accumulator. Operators with
// the roles kComm and kOptimize use it and run only every k-th time. A factor 1/k on the loss
// gradient makes the mean. With `deterministic` the parts are added as a binary tree, in log2(k)
// accumulators "w@GRAD@MERGED_BY_2", ...; parts and ranks together form one tree. Accumulators
// belong to one rank and are not in checkpoints: a checkpoint is taken after an update, when they
// are empty. UNIMPLEMENTED, naming the parameter: a sparse gradient.
StatusOr<PassOutcome> MergeGradients(Program& program, PassContext& context);

// Building blocks for other code that accumulates the parts of a batch. AddAccumulator declares the
// accumulator `name` of a gradient.
Status AddAccumulator(Program& program, const std::string& name, const TensorDesc& desc);
// AddToAccumulator adds `part` to the accumulator. ResetAccumulator sets the accumulator to zeros.
Op AddToAccumulator(const std::string& accumulator, const std::string& part);
Op ResetAccumulator(const Program& program, const std::string& accumulator);
// Multiplies the gradient of the loss by `factor`.
Status ScaleLossGradient(Program& program, double factor);

}  // namespace tandem
