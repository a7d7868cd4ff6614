// Reads the metadata that PyTorch's exporter adds to a model.
#pragma once

#include <set>
#include <string>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// Names of the network's own tensors, from the signature of its torch.export program.
struct TorchSignature {
  bool known = false;  // the model contains a signature
  std::set<std::string> parameters, buffers;
};
TorchSignature TorchSignatureOf(const ::onnx::GraphProto& graph);

// Whether the exporter merged a batch normalisation into `node`, a convolution or product.
bool HasFoldedBatchNorm(const ::onnx::NodeProto& node);

}  // namespace tandem::onnx
