// Deep gradient compression. Ranks exchange only the largest elements of the gradients of large
// parameters. Each rank accumulates the other elements until they become large. Source: Lin, Han,
// Mao, Wang and Dally, "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887): momentum
// correction, local gradient clipping, momentum factor masking, warm-up.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program.h"

namespace tandem::graph {

struct DgcRule {
  int64_t begin_step = 0;  // first step with compression; earlier steps use plain momentum
  // Number of steps over which the values of `sparsity` are used one after another. Later steps use
  // the last value.
  int64_t ramp_steps = 1;
  std::vector<double> sparsity = {0.999};

  // Returns the share of elements that are not sent in `step`. REQUIRES: step >= begin_step.
  float SparsityAt(int64_t step) const;
};

// Parameters with fewer elements than this are never compressed (the limit of Paddle 2.0).
inline constexpr int64_t kDgcElementsMin = 16384;

// Names of states (f32 [1]) that select the work of a step. The trainer sets these states before
// the step. kDgcWholeVar is 1 before begin_step, kDgcSelectedVar is 1 from begin_step on.
// kDgcBeginsVar is 1 only in begin_step.
inline constexpr const char* kDgcWholeVar = "dgc@WHOLE";
inline constexpr const char* kDgcBeginsVar = "dgc@BEGINS";
inline constexpr const char* kDgcSelectedVar = "dgc@SELECTED";
inline constexpr const char* kDgcSparsityVar = "dgc@SPARSITY";

// Returns true if the gradient of this parameter is dense and large enough to be compressed.
bool IsCompressed(const Program& program, const ParamGrad& pair);

// Appends the operators that compress the gradients, exchange them among `ranks` ranks and update
// the parameters. Gradients of one group are sent together. Weight decay and clip_norm change each
// rank's own gradient before compression. Therefore decay is divided by the number of ranks, and
// clip_norm by the square root of this number. Returns the slots that differ between ranks from
// begin_step on: the velocity, and the elements that were not sent. Only the sum of such a slot
// over the ranks has a meaning. UNIMPLEMENTED: the optimizer is not momentum, or the kind of
// clipping needs the sum of all ranks' gradients.
StatusOr<std::vector<std::string>> AppendCompressed(
    Program& program, const OptimizerSpec& optimizer,
    const std::vector<std::vector<ParamGrad>>& groups, const DgcRule& rule, int ranks);

}  // namespace tandem::graph
