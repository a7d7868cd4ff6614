// What PyTorch's exporter notes in a model beside the graph ("metadata").
#pragma once

#include <set>
#include <string>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// Names of the network's own tensors, in the signature of its torch.export program.
struct TorchSignature {
  bool known = false;  // the model has one
  std::set<std::string> parameters, buffers;
};
TorchSignature TorchSignatureOf(const ::onnx::GraphProto& graph);

// Whether the exporter has made a batch normalisation part of `node`, a convolution or product.
bool HasFoldedBatchNorm(const ::onnx::NodeProto& node);

}  // namespace tandem::onnx
