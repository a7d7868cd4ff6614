// Batch normalisation of a training step, with the sum and the activation behind it, as graphs of
// cuDNN's.
#pragma once

#include <optional>

#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem {

// Bytes that a plan may take: those of ResNet-50 take less than 1 MiB.
inline constexpr size_t kBatchNormWorkspace = size_t{4} << 20;

struct BatchNormGraphShape {
  cudnnDataType_t type;  // of images
  int64_t images, channels, plane;
  bool relu = false;
  bool z = false;  // Z, or with relu its gradient, is there
};

// Y = relu(batch_norm(X) + Z), as far as the shape has them.
struct BatchNormGraph {
  DnnGraph graph;
  DnnGraph::BatchNormTensors norm;
  std::optional<DnnGraph::Id> z;
  DnnGraph::Id y;

  explicit BatchNormGraph(const BatchNormGraphShape& s);
};

// Its gradients. With relu `gz` is the gradient where Y > 0, else 0: that of Z, and what goes
// through the normalisation.
struct BatchNormGradGraph {
  DnnGraph graph;
  DnnGraph::BatchNormGradTensors norm;
  DnnGraph::Id gy;
  std::optional<DnnGraph::Id> y, zero, gz;  // zero: a number

  explicit BatchNormGradGraph(const BatchNormGraphShape& s);
};

}  // namespace tandem
