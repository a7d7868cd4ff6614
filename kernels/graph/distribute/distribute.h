// Passes that make a program distributed by inserting communication operators after the gradients.
#pragma once

#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// The limits of gradient buckets: Fleet's fuse_grad_size_in_MB, fuse_grad_size_in_TFLOPS and
// last_comm_group_size_MB. In spite of its name, fuse_grad_size_in_TFLOPS limits the number of
// gradients.
struct GroupRule {
  double group_mb = 32;        // size in MiB at which a group closes; <= 0: one group per layer
  int64_t gradients_max = 50;  // number of gradients above which a group closes; <= 1: no limit
  double last_mb = 0;          // largest size of the last group in MiB; <= 0: no limit
};

// Splits `grads` into groups without changing their order. A layer (the name up to the first '.')
// stays in one group. A group closes after the layer with which the group reaches group_mb or
// exceeds gradients_max. If the last group is larger than last_mb, its last layers become a
// separate group: at least one layer, and as many layers as fit into last_mb. Finally, groups are
// split by element type. Source: Paddle 2.0 coalesce_grad_tensor_pass. last_mb limits the group
// that Paddle's dygraph reducer forms first.
std::vector<std::vector<ParamGrad>> GroupGradients(const Program& program,
                                                   const std::vector<ParamGrad>& grads,
                                                   const GroupRule& rule);

// Returns the gradients, with sparse gradients converted to dense ones. Modes whose communication
// supports only dense tensors call this function. The values are the same, but more bytes are sent.
StatusOr<std::vector<ParamGrad>> DensifyAll(Program& program, const std::vector<ParamGrad>& grads);

// Inserts one c_allreduce_sum per group directly after the operator that completes the gradients of
// the group. The allreduce runs if the condition `run_if` holds; "": always.
Status InsertAllReduce(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                       const std::string& run_if = "");

// Name of the state (f32 [1], initially 1) by which WeightSteps multiplies the gradient of the
// loss. Its value is the weight of the rank's samples in the mean over the step (Sampler::Weight).
inline constexpr const char* kStepWeightVar = "step@WEIGHT";
Status WeightSteps(Program& program);

// Appends one geo_exchange operator for the parameters `params`. At every k-th step, the operator
// sends this trainer's changes of the parameters to the pservers, and adds the changes of the other
// trainers. The option geo_steps of pserver mode is k.
Status AppendGeoExchange(Program& program, const std::vector<std::string>& params);

// LocalSGD (Stich, ICLR 2019). At every k-th step, and at each of the first `begin_step` steps,
// each parameter becomes its mean over the ranks. The operators run after the optimizer, with one
// c_allreduce_sum per group of parameters.
struct AverageRule {
  int64_t k_steps = 1, begin_step = 1;
  // If true, the operator adaptive_steps computes k from the loss and the learning rate. The
  // operator runs whenever the parameters are averaged, and uses the mean loss of the ranks, so
  // that all ranks have the same k. k_steps is the first k.
  bool adaptive = false;
};
// Name of the state (f32 [1]) that holds the current k if `adaptive` is true.
inline constexpr const char* kAverageStepsVar = "adaptive_localsgd@STEPS";
Status AppendAverage(Program& program, const std::vector<std::vector<ParamGrad>>& groups,
                     const AverageRule& rule, int ranks);

// Returns the sparse gradients whose parameters can be tables on pservers. Only lookups by ids of
// the batch use such a parameter.
std::vector<ParamGrad> TableGradients(const Program& program, const std::vector<ParamGrad>& grads);

// For each gradient, inserts a push_rows at the end of the program. Also inserts a pull_rows at the
// start of the program, unless the parameter is kRemote. REQUIRES: TableGradients returned
// `tables`.
Status InsertTables(Program& program, const std::vector<ParamGrad>& tables);

// Returns the parameters of the lookup_table operators with is_distributed, each once.
// INVALID_ARGUMENT, naming the parameter: the parameter has another use, or its ids are not data of
// the batch.
StatusOr<std::vector<std::string>> DistributedTables(const Program& program);

// Makes the tables kRemote. A prefetch_rows at the start of the program receives the rows of the
// batch. Lookups and their gradients use these rows. REQUIRES: DistributedTables returned `tables`.
Status PrefetchTables(Program& program, const std::vector<std::string>& tables);

// Appends one push_pull operator, which sends all gradients and receives all parameters. Does
// nothing if there are no gradients.
Status AppendPushPull(Program& program, const std::vector<ParamGrad>& grads);

}  // namespace tandem::graph
