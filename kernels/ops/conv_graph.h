// A convolution with the sum and the activation behind it as a graph of cuDNN's.
#pragma once

#include "kernels/ops/conv2d.h"
#include "kernels/ops/dnn_graph.h"

namespace tandem {

// y = relu(x * w + bias), as far as there is relu; bias is f32. Channels are last in all, also in
// w. `s` without groups.
struct ConvGraph {
  DnnGraph graph;
  DnnGraph::Id x, w, bias, y;

  ConvGraph(const ConvShape& s, cudnnDataType_t type, bool relu);
};

}  // namespace tandem
