#include "kernels/ops/conv_graph.h"

namespace tandem {

ConvGraph::ConvGraph(const ConvShape& s, cudnnDataType_t type, bool relu) {
  const DnnGraph::Dims out = {s.batch, s.out_c, s.out[0], s.out[1]};
  x = graph.Tensor(type, {s.batch, s.in_c, s.in[0], s.in[1]});
  w = graph.Tensor(type, {s.out_c, s.in_c, s.kernel[0], s.kernel[1]});
  bias = graph.Channels(s.out_c);
  y = graph.Tensor(type, out);
  const DnnGraph::Id product = graph.Between(CUDNN_DATA_FLOAT, out);
  graph.Convolution(x, w, product,
                    {.stride = {s.stride[0], s.stride[1]},
                     .pad = {s.pad[0], s.pad[1]},
                     .dilation = {s.dilation[0], s.dilation[1]}});
  const DnnGraph::Id sum = relu ? graph.Between(CUDNN_DATA_FLOAT, out) : y;
  graph.Pointwise(CUDNN_POINTWISE_ADD, product, bias, sum);
  if (relu) graph.Relu(sum, y);
}

}  // namespace tandem
