// Optimizers: which slots they keep, and their operator for one parameter. Used by the trainer for
// whole parameters and by the pserver for slices: the update rule depends on shapes in no way.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// Hyper-parameters by name: those of OptimizerConfig (proto/job.proto) that the type uses.
struct OptimizerSpec {
  std::string type = "sgd";  // sgd, momentum, adam
  AttrMap attrs;             // attributes of the optimizer operator (mu, use_nesterov, beta1, ...)
};

// "sgd, momentum, adam": for messages and docs.
std::vector<std::string> OptimizerTypes();

// Name of the kState variable (f32, one element) that holds the learning rate of the step.
inline constexpr const char* kLearningRateVar = "learning_rate";

// Declares the learning rate and the slots ("fc_0.w@velocity") of every parameter and appends one
// optimizer operator per pair. INVALID_ARGUMENT for an unknown type or attribute.
Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params);

// Names of the slot variables that AppendOptimizer declares for `param`.
StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param);

}  // namespace tandem
