// cuDNN graphs of a batch normalisation for training, with the following addition and activation.
#pragma once

#include <optional>

#include "kernels/ops/cuda/dnn_graph.h"

namespace tandem::ops {

// Largest workspace of a plan in bytes. Plans of ResNet-50 need less than 1 MiB.
inline constexpr size_t kBatchNormWorkspace = size_t{4} << 20;

struct BatchNormGraphShape {
  cudnnDataType_t type;  // element type of the images
  int64_t images, channels, plane;
  bool relu = false;
  bool z = false;  // true: Z is added; in the gradient: the gradient of Z is needed
};

// The graph of Y = relu(batch_norm(X) + Z). The BatchNormGraphShape says whether relu and Z are
// present.
struct BatchNormGraph {
  DnnGraph graph;
  DnnGraph::BatchNormTensors norm;
  std::optional<DnnGraph::Id> z;
  DnnGraph::Id y;

  explicit BatchNormGraph(const BatchNormGraphShape& s);
};

// The graph of the gradients. With relu, `gz` is the gradient of Y where Y > 0 and 0 elsewhere.
// `gz` is the gradient of Z and an input of the gradient of the normalisation.
struct BatchNormGradGraph {
  DnnGraph graph;
  DnnGraph::BatchNormGradTensors norm;
  DnnGraph::Id gy;
  // ids of tensors, except `zero`, which is the id of a number
  std::optional<DnnGraph::Id> y, zero, gz;

  explicit BatchNormGradGraph(const BatchNormGraphShape& s);
};

}  // namespace tandem::ops
