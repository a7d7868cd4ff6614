// Changes of the gradients that stand between autodiff (and communication) and the optimizer.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

// The settings of all optimizers (kernels/graph/optimizer.h), read.
struct GradientSettings {
  bool clip_values = false;
  double clip_min = 0, clip_max = 0;
  double clip_norm = 0, clip_global_norm = 0;  // 0: none
  double l1_decay = 0, l2_decay = 0;
  std::vector<std::string> decay_exclude;

  bool Excluded(const std::string& param) const;
};

// Takes the settings above out of `attrs`. INVALID_ARGUMENT for one of the wrong type or range, and
// for more than one kind of clip.
StatusOr<GradientSettings> TakeGradientSettings(AttrMap& attrs);

// Appends operators that clip the gradients, then operators that add the penalties' derivatives.
// Returns the changed gradients in the same order; a sparse gradient stays sparse, and its penalty
// is that of its rows.
StatusOr<std::vector<ParamGrad>> RewriteGradients(Program& program,
                                                  const GradientSettings& settings,
                                                  const std::vector<ParamGrad>& grads);

}  // namespace tandem
