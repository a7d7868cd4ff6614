// Optimizers: which slots they keep, and their operator for one parameter, behind the changes of
// the gradient that a job asks for. Used by the trainer for whole parameters and by the pserver for
// slices.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// The type (see OptimizerTypes) and its settings: attributes of the optimizer's operator (mu,
// use_nesterov, beta1, ...; docs/op_support.md) and those of all optimizers, which change the
// gradient before it, in Paddle's order:
//   clip_min, clip_max   double  values are cut to [clip_min, clip_max]
//   clip_norm            double  a parameter's gradient is scaled down to this 2-norm
//   clip_global_norm     double  all gradients together are scaled down to this 2-norm
//   l1_decay, l2_decay   double  + l1_decay sign(Param) + l2_decay Param
//   decay_exclude        string  parts of names, separated by commas: parameters with one of them
//                                in their name have no weight decay of any kind
struct OptimizerSpec {
  std::string type = "sgd";
  AttrMap attrs;
};

// "sgd, momentum, adam, ...": for messages and docs.
std::vector<std::string> OptimizerTypes();

// The operator of an optimizer. INVALID_ARGUMENT with the nearest name for an unknown type.
StatusOr<const OpDef*> OptimizerOp(const std::string& type);

// What the update of one element depends on beside its gradient and slots.
enum class UpdateScope : uint8_t {
  kElement,    // nothing: a parameter may be cut anywhere
  kParameter,  // the norm of its parameter or of that one's gradient (lars_momentum, lamb,
               // clip_norm)
  kAll         // the gradients of all parameters (clip_global_norm)
};
StatusOr<UpdateScope> ReachOf(const OptimizerSpec& spec);

// What a sparse gradient does to the rows that it lacks.
enum class UntouchedRowPolicy : uint8_t {
  kStay,  // nothing: sgd, adagrad, and all with lazy_mode
  kFade,  // slots that were used once fade away and move the row; before that nothing (momentum,
          // adam)
  kMove   // something even to a row that never had a gradient (ftrl, weight_decay of adam)
};
StatusOr<UntouchedRowPolicy> IdleRowsOf(const OptimizerSpec& spec, const std::string& param);

// Name of the kState variable (f32, one element) that holds the learning rate of the step.
inline constexpr const char* kLearningRateVar = "learning_rate";

// Declares the learning rate and the slots ("fc_0.w@velocity") of every parameter and appends the
// changes of the gradients and one optimizer operator per pair. INVALID_ARGUMENT for an unknown
// type or attribute, UNIMPLEMENTED naming the parameter for a sparse gradient that the type does
// not take.
Status AppendOptimizer(Program& program, const OptimizerSpec& spec,
                       const std::vector<ParamGrad>& params);

// Names of the slot variables that AppendOptimizer declares for `param`.
StatusOr<std::vector<std::string>> OptimizerSlots(const OptimizerSpec& spec,
                                                  const std::string& param);

}  // namespace tandem
