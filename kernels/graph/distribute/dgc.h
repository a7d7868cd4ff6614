// Deep gradient compression. Ranks exchange only the largest elements of the gradients of large
// parameters. Each rank accumulates the other elements until they are large. Source: Lin, Han, Mao,
// Wang and Dally, "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887): momentum correction,
// local gradient clipping, momentum factor masking, warm-up.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"

namespace tandem {

struct DgcRule {
  int64_t begin_step = 0;  // first step with compression; earlier steps are plain momentum
  int64_t ramp_steps = 1;  // steps over which the values of `sparsity` apply in turn; the last
                           // value then stays
  std::vector<double> sparsity = {0.999};  // shares of elements not sent; at least one value

  // REQUIRES: step >= begin_step.
  float SparsityAt(int64_t step) const;
};

// Parameters with fewer elements are sent whole at every step (the limit of Paddle 2.0).
inline constexpr int64_t kDgcElementsMin = 16384;

// States (f32 [1]) that select the work of a step; they are set before the step. Exactly one of
// kDgcWholeVar (before begin_step) and kDgcSelectedVar is 1. kDgcBeginsVar is 1 at begin_step.
inline constexpr const char* kDgcWholeVar = "dgc@WHOLE";
inline constexpr const char* kDgcBeginsVar = "dgc@BEGINS";
inline constexpr const char* kDgcSelectedVar = "dgc@SELECTED";
inline constexpr const char* kDgcSparsityVar = "dgc@SPARSITY";

// Returns whether the gradient of this parameter is compressed: it is dense and large enough.
bool IsCompressed(const Program& program, const ParamGrad& pair);

// Appends everything from these gradients to the updated parameters, over `ranks` ranks. The
// gradients of one group are sent together. Weight decay and clip_norm change each rank's own part
// before compression: decay is divided by the number of ranks, the norm by its square root. Returns
// the slots that hold a rank's own part from begin_step on; for these only the sum over the ranks
// has a meaning. They are the velocity (before begin_step the velocity of momentum) and the
// elements not sent. UNIMPLEMENTED: an optimizer other than momentum, or a clip that needs the sum.
StatusOr<std::vector<std::string>> AppendCompressed(
    Program& program, const OptimizerSpec& optimizer,
    const std::vector<std::vector<ParamGrad>>& groups, const DgcRule& rule, int ranks);

}  // namespace tandem
