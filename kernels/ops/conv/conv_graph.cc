#include "kernels/ops/conv/conv_graph.h"

namespace tandem::ops {
namespace {

DnnGraph::Dims InputOf(const ConvShape& s) { return {s.batch, s.in_c, s.in[0], s.in[1]}; }
DnnGraph::Dims FilterOf(const ConvShape& s) {
  return {s.out_c, s.in_c / s.groups, s.kernel[0], s.kernel[1]};
}
DnnGraph::Dims OutputOf(const ConvShape& s) { return {s.batch, s.out_c, s.out[0], s.out[1]}; }

DnnGraph::Window WindowOf(const ConvShape& s) {
  return {.stride = {s.stride[0], s.stride[1]},
          .pad = {s.pad[0], s.pad[1]},
          .dilation = {s.dilation[0], s.dilation[1]}};
}

}  // namespace

ConvGraph ConvOutputGraph(const ConvShape& s, cudnnDataType_t type, const ConvEpilogue& epilogue) {
  ConvGraph g;
  g.a = g.graph.Tensor(type, InputOf(s));
  g.b = g.graph.Tensor(type, FilterOf(s));
  if (epilogue.bias) g.bias = g.graph.Channels(s.out_c);
  g.out = g.graph.Tensor(type, OutputOf(s));
  const auto next = [&](bool last) {
    return last ? g.out : g.graph.Between(CUDNN_DATA_FLOAT, OutputOf(s));
  };
  DnnGraph::Id y = next(epilogue.empty());
  g.graph.Convolution(g.a, g.b, y, WindowOf(s));
  if (epilogue.bias) {
    const DnnGraph::Id sum = next(!epilogue.relu);
    g.graph.Pointwise(CUDNN_POINTWISE_ADD, y, *g.bias, sum);
    y = sum;
  }
  if (epilogue.relu) g.graph.Relu(y, g.out);
  return g;
}

ConvGraph ConvInputGradGraph(const ConvShape& s, cudnnDataType_t type) {
  ConvGraph g;
  g.a = g.graph.Tensor(type, FilterOf(s));
  g.b = g.graph.Tensor(type, OutputOf(s));
  g.out = g.graph.Tensor(type, InputOf(s));
  g.graph.ConvolutionInputGrad(g.a, g.b, g.out, WindowOf(s));
  return g;
}

ConvGraph ConvFilterGradGraph(const ConvShape& s, cudnnDataType_t type) {
  ConvGraph g;
  g.a = g.graph.Tensor(type, InputOf(s));
  g.b = g.graph.Tensor(type, OutputOf(s));
  g.out = g.graph.Tensor(type, FilterOf(s));
  g.graph.ConvolutionFilterGrad(g.a, g.b, g.out, WindowOf(s));
  return g;
}

}  // namespace tandem::ops
