// Gradients of several steps are added up; communication and update run with the last of them.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// gradient_merge (k_steps steps of the job) and batch_merge_repeats (parts of one step's batch):
// every dense gradient gets an accumulator "w@GRAD@MERGED" among the state; operators with the
// roles kComm and kOptimize work on it and run every k-th time alone. The mean is taken by the
// factor 1/k on the loss gradient. With `deterministic` the parts are added as a binary tree, by
// log2(k) accumulators "w@GRAD@MERGED_BY_2", ...; parts and ranks together are one tree.
// Accumulators are each rank's own and in no checkpoint: one is that of the last update, where they
// are empty. UNIMPLEMENTED naming the parameter for a sparse gradient.
StatusOr<PassOutcome> MergeGradients(Program& program, PassContext& context);

// What it is put together from, for whoever else adds up the parts of a batch.
// Declares the accumulator `name` of a gradient.
Status AddAccumulator(Program& program, const std::string& name, const TensorDesc& desc);
// Adds `part` to it; gives it back its zeros.
Op AddToAccumulator(const std::string& accumulator, const std::string& part);
Op ResetAccumulator(const Program& program, const std::string& accumulator);
// The gradient of the loss is multiplied by `factor`.
Status ScaleLossGradient(Program& program, double factor);

}  // namespace tandem
