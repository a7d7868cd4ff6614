// The three products of a convolution with channels last, as cuDNN graphs.
#pragma once

#include <optional>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem {

// Computes `out` from `a` and `b`: y from x and w, gx from w and gy, gw from x and gy. The filter
// has its channels last too.
struct ConvGraph {
  DnnGraph graph;
  DnnGraph::Id a, b, out;
  std::optional<DnnGraph::Id> bias;  // f32, added to y
};

struct ConvEpilogue {
  bool bias = false, relu = false;
  bool empty() const { return !bias && !relu; }
};

// The parts that an operator computes.
struct ConvParts {
  bool output = false, input_grad = false, filter_grad = false;
  ConvEpilogue epilogue;  // applied to the output
};

// y = relu(x * w + bias). The epilogue says whether there are a bias and a relu.
ConvGraph ConvOutputGraph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& epilogue);
ConvGraph ConvInputGradGraph(const ConvShape& s, cudnnDataType_t type);
ConvGraph ConvFilterGradGraph(const ConvShape& s, cudnnDataType_t type);

}  // namespace tandem
