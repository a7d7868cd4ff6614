// Lists of sizes of which some are batches (kOnnxBatch): arithmetic, and what Reshape asks for.
#pragma once

#include <optional>
#include <vector>

#include "trainer/onnx/graph_reader.h"

namespace tandem::onnx {

// A op B for op one of + - * /; nullopt: it is neither a number nor a multiple of the batch.
std::optional<int64_t> OnnxSizeOf(char op, int64_t a, int64_t b);

// `dims` with the -1 among them, if there is one, computed from the sizes of `var`.
StatusOr<std::vector<int64_t>> OnnxFillSizes(const OnnxGraphReader& graph, const std::string& var,
                                             std::vector<int64_t> dims);

// The sizes that a Reshape of `var` to `dims` gives: 0 copies a dimension of `var` unless
// `allow_zero`, -1 is computed. Of a model that was saved for one batch (fixed_batch), the
// dimension that holds it becomes the batch.
StatusOr<std::vector<int64_t>> OnnxReshapeSizes(const OnnxGraphReader& graph,
                                                const std::string& var, std::vector<int64_t> dims,
                                                bool allow_zero);

}  // namespace tandem::onnx
