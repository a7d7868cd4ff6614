// Deep gradient compression: of large parameters' gradients the largest elements alone travel, and
// what was not sent is kept and added up until it is large. Source: Lin, Han, Mao, Wang and Dally,
// "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887): momentum correction, local gradient
// clipping, momentum factor masking, warm-up.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"

namespace tandem {

struct DgcRule {
  int64_t begin_step = 0;  // gradients travel whole before it, and momentum takes them as ever
  int64_t ramp_steps = 1;  // over which `sparsity` is walked; its last value stays
  std::vector<double> sparsity = {0.999};  // shares that are not sent; at least one

  // REQUIRES: step >= begin_step.
  float SparsityAt(int64_t step) const;
};

// Parameters with fewer elements travel whole at every step (Paddle 2.0's limit).
inline constexpr int64_t kDgcElementsMin = 16384;

// What a step does, as states (f32 [1]) that are set before it: exactly one of kDgcWholeVar (before
// begin_step) and kDgcSelectedVar is 1; kDgcBeginsVar is 1 at begin_step.
inline constexpr const char* kDgcWholeVar = "dgc@WHOLE";
inline constexpr const char* kDgcBeginsVar = "dgc@BEGINS";
inline constexpr const char* kDgcSelectedVar = "dgc@SELECTED";
inline constexpr const char* kDgcSparsityVar = "dgc@SPARSITY";

// Whether the gradient of this parameter is compressed: dense and large enough.
bool IsCompressed(const Program& program, const ParamGrad& pair);

// Everything from these gradients to their parameters, over `ranks` ranks: a group's gradients
// travel together. Weight decay and clip_norm change each rank's own part before it is compressed:
// the decay is divided by the ranks, the norm by their root. Returns the slots that hold a rank's
// own part from begin_step on, of which the sums over the ranks mean something: the velocity, which
// before is that of momentum, and what was not sent. UNIMPLEMENTED for an optimizer other than
// momentum and for clips that need the sum.
StatusOr<std::vector<std::string>> AppendCompressed(
    Program& program, const OptimizerSpec& optimizer,
    const std::vector<std::vector<ParamGrad>>& groups, const DgcRule& rule, int ranks);

}  // namespace tandem
