// Arithmetic on lists of sizes, in which a size may be a multiple of the batch (kBatch), and the
// sizes of Reshape nodes.
#pragma once

#include <optional>
#include <vector>

#include "trainer/onnx/batched_program.h"

namespace tandem::onnx {

// Returns the result of `a` `op` `b`, where `op` is +, -, *, / or %. nullopt: the result is neither
// a number nor a multiple of the batch.
std::optional<int64_t> ComputeSize(char op, int64_t a, int64_t b);

// Returns `dims`. Replaces a -1 in `dims` by the size with which `dims` has as many elements as
// `var`.
StatusOr<std::vector<int64_t>> FillSizes(const BatchedProgram& program, const std::string& var,
                                         std::vector<int64_t> dims);

// Returns the sizes of `var` after a Reshape to `dims`. A 0 in `dims` copies the dimension of
// `var`; with `allow_zero` a 0 is an error. A -1 is computed from the other sizes. If the model was
// saved for one batch size (fixed_batch), the dimension of this size becomes the batch.
StatusOr<std::vector<int64_t>> ReshapeSizes(const BatchedProgram& program, const std::string& var,
                                            std::vector<int64_t> dims, bool allow_zero);

}  // namespace tandem::onnx
