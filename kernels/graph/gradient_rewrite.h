// Changes of gradients before the optimizer uses them: clipping and weight decay.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

// Clipping and weight decay, the settings that all optimizers share (kernels/graph/optimizer.h).
struct GradientSettings {
  bool clip_values = false;
  double clip_min = 0, clip_max = 0;
  // Largest 2-norm of one or all gradients; 0: no limit.
  double clip_norm = 0, clip_global_norm = 0;
  double l1_decay = 0, l2_decay = 0;
  std::vector<std::string> decay_exclude;

  bool Excluded(const std::string& param) const;
};

// Removes the gradient settings from `attrs` and returns them. INVALID_ARGUMENT: a setting has the
// wrong type or range, or more than one kind of clipping is set.
StatusOr<GradientSettings> TakeGradientSettings(ops::AttrMap& attrs);

// Appends operators that clip the gradients, then operators that add the derivatives of the
// penalties. Returns the changed gradients in the order of `grads`. A sparse gradient stays sparse,
// and its penalty applies only to the rows of the gradient.
StatusOr<std::vector<ParamGrad>> RewriteGradients(Program& program,
                                                  const GradientSettings& settings,
                                                  const std::vector<ParamGrad>& grads);

}  // namespace tandem::graph
