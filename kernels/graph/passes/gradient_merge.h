// Accumulates the gradients of several steps. Communication and update run only in the last of
// these steps.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Implements the knobs gradient_merge (k_steps steps of the job) and batch_merge_repeats (parts of
// one step's batch). Every dense gradient gets a state variable "w@GRAD@MERGED" as accumulator.
// Operators with the roles kComm and kOptimize read the accumulator and run only every k-th time.
// The gradient of the loss is multiplied by 1/k, so that the sum is a mean. With `deterministic`,
// the parts are added as a binary tree, in log2(k) accumulators "w@GRAD@MERGED_BY_2", ... Parts and
// ranks together form one tree. Each rank has its own accumulators. Checkpoints do not contain
// accumulators, because a checkpoint is written after an update, when the accumulators are empty.
// UNIMPLEMENTED, naming the parameter: a gradient is sparse.
StatusOr<PassOutcome> MergeGradients(Program& program, PassContext& context);

// Declares the accumulator `name` of a gradient. AddAccumulator and the next three functions are
// for other code that accumulates the parts of a batch.
Status AddAccumulator(Program& program, const std::string& name, const TensorDesc& desc);
// AddToAccumulator returns the operator that adds `part` to the accumulator. ResetAccumulator
// returns the operator that sets the accumulator to zeros.
ops::Op AddToAccumulator(const std::string& accumulator, const std::string& part);
ops::Op ResetAccumulator(const Program& program, const std::string& accumulator);
// Changes the program so that the gradient of the loss is multiplied by `factor`.
Status ScaleLossGradient(Program& program, double factor);

}  // namespace tandem::graph
