// Arithmetic on lists of sizes, some of which may be multiples of the batch (kBatch), and the
// sizes of Reshape.
#pragma once

#include <optional>
#include <vector>

#include "trainer/onnx/batched_program.h"

namespace tandem::onnx {

// Returns a op b for an op of + - * /; nullopt: the result is neither a number nor a multiple of
// the batch.
std::optional<int64_t> ComputeSize(char op, int64_t a, int64_t b);

// Returns `dims` with a -1, if present, replaced by the size that follows from `var`.
StatusOr<std::vector<int64_t>> FillSizes(const BatchedProgram& program, const std::string& var,
                                         std::vector<int64_t> dims);

// Returns the sizes that a Reshape of `var` to `dims` gives. 0 copies a dimension of `var` unless
// `allow_zero`; -1 is computed. If the model was saved for one batch size (fixed_batch), the
// dimension of that size becomes the batch.
StatusOr<std::vector<int64_t>> ReshapeSizes(const BatchedProgram& program, const std::string& var,
                                            std::vector<int64_t> dims, bool allow_zero);

}  // namespace tandem::onnx
