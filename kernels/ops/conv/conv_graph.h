// The three products of a convolution whose channels are last, as graphs of cuDNN's.
#pragma once

#include <optional>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem {

// `out` of `a` and `b`: y of x and w, gx of w and gy, gw of x and gy. The filter's channels are
// last, too.
struct ConvGraph {
  DnnGraph graph;
  DnnGraph::Id a, b, out;
  std::optional<DnnGraph::Id> bias;  // f32, of y
};

struct ConvEpilogue {
  bool bias = false, relu = false;
  bool nothing() const { return !bias && !relu; }
};
// y = relu(x * w + bias), as far as `behind` has them.
ConvGraph ConvOutputGraph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& behind);
ConvGraph ConvInputGradGraph(const ConvShape& s, cudnnDataType_t type);
ConvGraph ConvFilterGradGraph(const ConvShape& s, cudnnDataType_t type);

}  // namespace tandem
