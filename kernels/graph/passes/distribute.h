// Passes that make a program distributed: they insert communication operators behind the gradients.
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// When a group of gradients is full (Fleet's fuse_grad_size_in_MB and fuse_grad_size_in_TFLOPS,
// which counts gradients, not operations), and what the last one may be (last_comm_group_size_MB).
struct GroupRule {
  double group_mb = 32;        // MiB at which a group closes; <= 0: one group per layer
  int64_t gradients_max = 50;  // a group of more gradients closes; <= 1: no such limit
  double last_mb = 0;          // MiB that the last group holds at most; <= 0: no such limit
};

// Groups in the order of `grads`. A layer (the name up to the first '.') is never cut; a group
// closes after the layer with which it reaches the size or exceeds the count; of the last group, if
// it holds too much, the last layers that are not too much (at least one) become a group of their
// own; then groups are split by element type. Source: Paddle 2.0 coalesce_grad_tensor_pass; of the
// last group: the size of the first one that its dygraph reducer forms, from the front.
std::vector<std::vector<ParamGrad>> GroupGradients(const Program& program,
                                                   const std::vector<ParamGrad>& grads,
                                                   const GroupRule& rule);

// The gradients, sparse ones made dense: what modes ask for whose communication carries whole
// tensors alone. The result is the same; the saving is lost.
StatusOr<std::vector<ParamGrad>> DensifyAll(Program& program, const std::vector<ParamGrad>& grads);

// One c_allreduce_sum per group, right behind the operator that finishes the group's gradients;
// under the condition `run_if` where one is given.
Status InsertAllReduce(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                       const std::string& run_if = "");

// The state (f32 [1], 1 at first) by which the gradient of the loss is then multiplied: what a
// rank's samples count for in the mean over the step (Sampler::Weight).
inline constexpr const char* kStepWeightVar = "step@WEIGHT";
Status WeightSteps(Program& program);

// At the end one geo_exchange of these parameters.
Status AppendGeoExchange(Program& program, const std::vector<std::string>& params);

// LocalSGD (Stich, ICLR 2019): at every k-th step, and at each of the first `begin_step`, the
// parameters become their mean over `ranks` ranks. Behind the optimizer; one c_allreduce_sum per
// group, of which the parameters count.
struct AverageRule {
  int64_t k_steps = 1, begin_step = 1;
  // k follows loss and learning rate (the operator adaptive_steps) and is computed anew at each
  // average, from the mean of the ranks' losses, so that all have the same; k_steps is the first.
  bool adaptive = false;
};
// The state (f32 [1]) that holds k with `adaptive`.
inline constexpr const char* kAverageStepsVar = "adaptive_localsgd@STEPS";
Status AppendAverage(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                     const AverageRule& rule, int ranks);

// The sparse gradients whose parameters can be tables on pservers: looked up by ids of the batch,
// and used in no other way.
std::vector<ParamGrad> TableGradients(const Program& program, const std::vector<ParamGrad>& grads);

// For each of them a pull_rows before everything else, unless it is kRemote, and a push_rows at the
// end. REQUIRES: `tables` are of TableGradients.
Status InsertTables(Program& program, const std::vector<ParamGrad>& tables);

// The parameters whose lookup_table says is_distributed, each once. INVALID_ARGUMENT naming one
// that is used otherwise, or looked up by ids that are no data of the batch.
StatusOr<std::vector<std::string>> DistributedTables(const Program& program);

// They become kRemote: a prefetch_rows before everything else brings the rows of the batch, and
// lookups and their gradients work on those. REQUIRES: `tables` are of DistributedTables.
Status PrefetchTables(Program& program, const std::vector<std::string>& tables);

// At the end one push_pull: all gradients out, all parameters back. Nothing for no gradients.
Status AppendPushPull(Program& program, const std::vector<ParamGrad>& grads);

}  // namespace tandem
