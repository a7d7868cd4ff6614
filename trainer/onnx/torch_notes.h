// Reads the metadata that PyTorch's exporter adds to an ONNX model.
#pragma once

#include <set>
#include <string>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// The names of the network's own tensors, from the signature of the torch.export program that the
// model contains.
struct TorchSignature {
  bool known = false;  // true: the model contains a signature of PyTorch
  std::set<std::string> parameters, buffers;
};
TorchSignature TorchSignatureOf(const ::onnx::GraphProto& graph);

// Returns whether the exporter merged a batch normalisation into `node`, which is a convolution or
// a matrix product.
bool HasFoldedBatchNorm(const ::onnx::NodeProto& node);

}  // namespace tandem::onnx
