// The three products of a convolution with channels last, as cuDNN graphs.
#pragma once

#include <optional>

#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem::ops {

// A cuDNN graph that computes `out` from `a` and `b`: y from x and w, gx from w and gy, or gw from
// x and gy. All tensors, filters included, have channels last.
struct ConvGraph {
  DnnGraph graph;
  DnnGraph::Id a, b, out;
  std::optional<DnnGraph::Id> bias;  // bias (f32) that is added to y
};

struct ConvEpilogue {
  bool bias = false, relu = false;
  bool empty() const { return !bias && !relu; }
};

// The tensors that an operator computes from a convolution.
struct ConvParts {
  bool output = false, input_grad = false, filter_grad = false;
  ConvEpilogue epilogue;  // operations that follow the convolution: bias and relu
};

// Returns the graph of y = relu(x * w + bias). `epilogue` says whether bias and relu are included.
ConvGraph ConvOutputGraph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& epilogue);
ConvGraph ConvInputGradGraph(const ConvShape& s, cudnnDataType_t type);
ConvGraph ConvFilterGradGraph(const ConvShape& s, cudnnDataType_t type);

}  // namespace tandem::ops
