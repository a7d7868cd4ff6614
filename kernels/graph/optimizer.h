// Optimizers: their slots, and the operator that updates one parameter. AppendOptimizer also
// appends the job's changes of gradients (clipping, weight decay). The trainer uses optimizers for
// whole parameters, the pserver uses them for slices.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// The type of an optimizer (see OptimizerTypes) and its attributes. Some attributes belong to the
// optimizer's operator (mu, use_nesterov, beta1, ...; docs/reference/operators.md). All optimizers
// have the following attributes, which change the gradient before the update, in Paddle's order:
//   clip_min, clip_max   double  values are limited to [clip_min, clip_max]
//   clip_norm            double  a parameter's gradient is scaled down to this 2-norm
//   clip_global_norm     double  all gradients together are scaled down to this 2-norm
//   l1_decay, l2_decay   double  adds l1_decay sign(Param) + l2_decay Param
//   decay_exclude        string  parts of names, separated by commas: parameters with one of them
//     in their name have no weight decay of any kind
struct OptimizerSpec {
  std::string type = "sgd";
  ops::AttrMap attrs;
};

// Returns the types of all optimizers that a job can choose ("sgd", "momentum", "adam", ...), for
// messages and docs. Servers also have buffered_momentum (localsgd in mode pserver).
std::vector<std::string> OptimizerTypes();

// INVALID_ARGUMENT: a job cannot choose the optimizer type; the message names the most similar
// type.
Status CheckJobOptimizer(const std::string& type);

// Returns the operator that implements an optimizer type. INVALID_ARGUMENT: the type is unknown;
// the message names the most similar type.
StatusOr<const ops::OpDef*> OptimizerOp(const std::string& type);

// The values that the update of one element needs, besides the element's own gradient and slots.
enum class UpdateScope : uint8_t {
  kElement,  // no other values: a parameter may be split between any two elements
  // The update needs the norm of the parameter or of its gradient (lars_momentum, lamb, clip_norm).
  kParameter,
  kAll  // the update needs the gradients of all parameters (clip_global_norm)
};
StatusOr<UpdateScope> ReachOf(const OptimizerSpec& spec);

// The effect of an update with a sparse gradient on rows that the gradient does not contain.
enum class UntouchedRowPolicy : uint8_t {
  kStay,  // these rows do not change: sgd, adagrad, and all types with lazy_mode
  // A row changes if it had a gradient before, because its slots still decay. Other rows do not
  // change (momentum, adam).
  kFade,
  kMove  // all rows change, also without any gradient before (ftrl, weight_decay of adam)
};
StatusOr<UntouchedRowPolicy> IdleRowsOf(const OptimizerSpec& spec, const std::string& param);

// Name of the kState variable (f32 [1]) that holds the learning rate of the current step.
inline constexpr const char* kLearningRateVar = "learning_rate";

// Declares the learning rate and the slots ("fc_0.w@velocity") of every parameter. Appends the
// changes of the gradients, then one optimizer operator per parameter. INVALID_ARGUMENT: the type
// or an attribute is unknown. UNIMPLEMENTED, naming the parameter: the type does not accept a
// sparse gradient.
Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params);

// Returns the names of the slot variables that AppendOptimizer declares for `param`.
StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param);

}  // namespace tandem::graph
