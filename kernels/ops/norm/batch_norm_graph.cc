#include "kernels/ops/norm/batch_norm_graph.h"

namespace tandem::ops {

BatchNormGraph::BatchNormGraph(const BatchNormGraphShape& s) {
  const DnnGraph::Dims dims = {s.images, s.channels, s.plane, 1};
  const auto between = [&] { return graph.Between(CUDNN_DATA_FLOAT, dims); };
  const auto channels = [&] { return graph.Channels(s.channels); };
  y = graph.Tensor(s.type, dims);
  norm = {.x = graph.Tensor(s.type, dims),
          .scale = channels(),
          .bias = channels(),
          .epsilon = graph.Number(),
          .y = s.relu || s.z ? between() : y,
          .saved_mean = channels(),
          .saved_inv = channels()};
  graph.BatchNorm(norm);
  DnnGraph::Id last = norm.y;
  if (s.z) {
    z = graph.Tensor(s.type, dims);
    const DnnGraph::Id sum = s.relu ? between() : y;
    graph.Pointwise(CUDNN_POINTWISE_ADD, last, *z, sum);
    last = sum;
  }
  if (s.relu) graph.Relu(last, y);
}

BatchNormGradGraph::BatchNormGradGraph(const BatchNormGraphShape& s) {
  const DnnGraph::Dims dims = {s.images, s.channels, s.plane, 1};
  const auto channels = [&] { return graph.Channels(s.channels); };
  gy = graph.Tensor(s.type, dims);
  DnnGraph::Id through = gy;
  if (s.relu) {
    y = graph.Tensor(s.type, dims);
    zero = graph.Number();
    if (s.z) gz = graph.Tensor(s.type, dims);
    through = gz.has_value() ? *gz : graph.Between(s.type, dims);
    // The gradient of relu is computed as a product with a mask, because cuDNN has no plan with a
    // selection. Where the mask is 0, an infinite gradient becomes NaN instead of 0. Loss scaling
    // skips steps with infinity and with NaN.
    const DnnGraph::Id mask = graph.Between(CUDNN_DATA_BOOLEAN, dims);
    graph.Pointwise(CUDNN_POINTWISE_CMP_GT, *y, *zero, mask);
    graph.Pointwise(CUDNN_POINTWISE_MUL, gy, mask, through);
  }
  norm = {.x = graph.Tensor(s.type, dims),
          .gy = through,
          .scale = channels(),
          .saved_mean = channels(),
          .saved_inv = channels(),
          .gx = graph.Tensor(s.type, dims),
          .gscale = channels(),
          .gbias = channels()};
  graph.BatchNormGrad(norm);
}

}  // namespace tandem::ops
