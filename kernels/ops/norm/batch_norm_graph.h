// Batch normalisation for training, with the following sum and activation, as cuDNN graphs.
#pragma once

#include <optional>

#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem {

// Largest workspace of a plan in bytes. The plans of ResNet-50 need less than 1 MiB.
inline constexpr size_t kBatchNormWorkspace = size_t{4} << 20;

struct BatchNormGraphShape {
  cudnnDataType_t type;  // type of the images
  int64_t images, channels, plane;
  bool relu = false;
  bool z = false;  // Z is present, or its gradient if relu is set
};

// Y = relu(batch_norm(X) + Z). The shape says whether relu and Z are present.
struct BatchNormGraph {
  DnnGraph graph;
  DnnGraph::BatchNormTensors norm;
  std::optional<DnnGraph::Id> z;
  DnnGraph::Id y;

  explicit BatchNormGraph(const BatchNormGraphShape& s);
};

// The gradients. With relu, `gz` is the gradient where Y > 0, else 0. It is the gradient of Z, and
// also the gradient that enters the normalisation.
struct BatchNormGradGraph {
  DnnGraph graph;
  DnnGraph::BatchNormGradTensors norm;
  DnnGraph::Id gy;
  std::optional<DnnGraph::Id> y, zero, gz;  // zero: a number

  explicit BatchNormGradGraph(const BatchNormGraphShape& s);
};

}  // namespace tandem
