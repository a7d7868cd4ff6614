// Optimizers: their slots and the operator that updates one parameter. AppendOptimizer also appends
// the gradient changes (clipping, weight decay) of the job. The trainer uses optimizers for whole
// parameters, the pserver for slices.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// The type (see OptimizerTypes) and the attributes. They are the attributes of the optimizer's
// operator (mu, use_nesterov, beta1, ...; docs/reference/operators.md) and those of all optimizers.
// The latter change the gradient before the update, in Paddle's order:
//   clip_min, clip_max   double  values are limited to [clip_min, clip_max]
//   clip_norm            double  a parameter's gradient is scaled down to this 2-norm
//   clip_global_norm     double  all gradients together are scaled down to this 2-norm
//   l1_decay, l2_decay   double  adds l1_decay sign(Param) + l2_decay Param
//   decay_exclude        string  parts of names, separated by commas: parameters with one of them
//                                in their name have no weight decay of any kind
struct OptimizerSpec {
  std::string type = "sgd";
  AttrMap attrs;
};

// Returns "sgd, momentum, adam, ...", for messages and docs.
std::vector<std::string> OptimizerTypes();

// Returns the operator of an optimizer. INVALID_ARGUMENT, naming the most similar type: unknown
// type.
StatusOr<const OpDef*> OptimizerOp(const std::string& type);

// Everything on which the update of one element depends, in addition to its gradient and slots.
enum class UpdateScope : uint8_t {
  kElement,    // nothing else: a parameter may be split anywhere
  kParameter,  // the norm of the parameter or of its gradient (lars_momentum, lamb, clip_norm)
  kAll         // the gradients of all parameters (clip_global_norm)
};
StatusOr<UpdateScope> ReachOf(const OptimizerSpec& spec);

// The effect of a sparse gradient on rows that it does not contain.
enum class UntouchedRowPolicy : uint8_t {
  kStay,  // none: sgd, adagrad, and all types with lazy_mode
  // A row that had a gradient before moves on, as its slots decay. Other rows stay (momentum,
  // adam).
  kFade,
  kMove  // moves even a row that never had a gradient (ftrl, weight_decay of adam)
};
StatusOr<UntouchedRowPolicy> IdleRowsOf(const OptimizerSpec& spec, const std::string& param);

// Name of the kState variable (f32, one element) that holds the learning rate of the step.
inline constexpr const char* kLearningRateVar = "learning_rate";

// Declares the learning rate and the slots ("fc_0.w@velocity") of every parameter. Appends the
// changes of the gradients and one optimizer operator per pair. INVALID_ARGUMENT: unknown type or
// attribute. UNIMPLEMENTED, naming the parameter: the type does not accept a sparse gradient.
Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params);

// Returns the names of the slot variables that AppendOptimizer declares for `param`.
StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param);

}  // namespace tandem
