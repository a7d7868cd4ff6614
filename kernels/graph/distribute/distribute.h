// Passes that make a program distributed by inserting communication operators after the gradients.
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// When a gradient bucket is full (Fleet's fuse_grad_size_in_MB and fuse_grad_size_in_TFLOPS; the
// latter counts gradients, not operations), and the limit of the last one
// (last_comm_group_size_MB).
struct GroupRule {
  double group_mb = 32;        // MiB at which a group closes; <= 0: one group per layer
  int64_t gradients_max = 50;  // a group with more gradients closes; <= 1: no limit
  double last_mb = 0;          // largest size of the last group in MiB; <= 0: no limit
};

// Returns groups in the order of `grads`. A layer (the name up to the first '.') is never split. A
// group closes after the layer with which it reaches the size or exceeds the count. If the last
// group is too large, its last layers that fit into the limit (at least one) become a separate
// group. Finally, groups are split by element type. Source: Paddle 2.0 coalesce_grad_tensor_pass.
// The limit of the last group is the size of the first group that Paddle's dygraph reducer forms,
// from the front.
std::vector<std::vector<ParamGrad>> GroupGradients(const Program& program,
                                                   const std::vector<ParamGrad>& grads,
                                                   const GroupRule& rule);

// Returns the gradients, with sparse ones made dense. Modes whose communication handles only whole
// tensors use this. The result is the same; the saving of sparse gradients is lost.
StatusOr<std::vector<ParamGrad>> DensifyAll(Program& program, const std::vector<ParamGrad>& grads);

// Inserts one c_allreduce_sum per group directly after the operator that completes the group's
// gradients. The allreduce has the condition `run_if` if that is not empty.
Status InsertAllReduce(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                       const std::string& run_if = "");

// WeightSteps multiplies the gradient of the loss by this state (f32 [1], initially 1). It is the
// weight of a rank's samples in the mean over the step (Sampler::Weight).
inline constexpr const char* kStepWeightVar = "step@WEIGHT";
Status WeightSteps(Program& program);

// Appends one geo_exchange of these parameters.
Status AppendGeoExchange(Program& program, const std::vector<std::string>& params);

// LocalSGD (Stich, ICLR 2019). At every k-th step, and at each of the first `begin_step` steps, the
// parameters become their mean over `ranks` ranks. The operators run after the optimizer, with one
// c_allreduce_sum of the parameters per group.
struct AverageRule {
  int64_t k_steps = 1, begin_step = 1;
  // k follows loss and learning rate (the operator adaptive_steps). Each average computes it again
  // from the mean of the ranks' losses, so that all ranks have the same k. k_steps is the first k.
  bool adaptive = false;
};
// The state (f32 [1]) that holds k with `adaptive`.
inline constexpr const char* kAverageStepsVar = "adaptive_localsgd@STEPS";
Status AppendAverage(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                     const AverageRule& rule, int ranks);

// Returns the sparse gradients whose parameters can be tables on pservers: each is looked up only
// by ids of the batch and has no other use.
std::vector<ParamGrad> TableGradients(const Program& program, const std::vector<ParamGrad>& grads);

// For each gradient, inserts a pull_rows at the start, unless the parameter is kRemote, and a
// push_rows at the end. REQUIRES: `tables` come from TableGradients.
Status InsertTables(Program& program, const std::vector<ParamGrad>& tables);

// Returns the parameters whose lookup_table has is_distributed, each once. INVALID_ARGUMENT, naming
// the parameter: it has another use, or its ids are no data of the batch.
StatusOr<std::vector<std::string>> DistributedTables(const Program& program);

// Makes the tables kRemote. A prefetch_rows at the start brings the rows of the batch; lookups and
// their gradients use these rows. REQUIRES: `tables` come from DistributedTables.
Status PrefetchTables(Program& program, const std::vector<std::string>& tables);

// Appends one push_pull: it sends all gradients and receives all parameters. Does nothing if there
// are no gradients.
Status AppendPushPull(Program& program, const std::vector<ParamGrad>& grads);

}  // namespace tandem
