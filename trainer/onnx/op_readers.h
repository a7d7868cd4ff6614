// Converts ONNX nodes to operators.
#pragma once

#include <span>
#include <string>

#include "trainer/onnx/node.h"

namespace tandem::onnx {

using ReadFn = Status (*)(const Node& node);

struct ReadRow {
  const char* type;
  ReadFn read;
};

// Readers of activations that become several operators (op_readers_activations.cc).
std::span<const ReadRow> ActivationReaders();
// Readers of other elementwise nodes (op_readers_elements.cc).
std::span<const ReadRow> ElementReaders();
// Readers of convolutions and poolings (op_readers_image.cc).
std::span<const ReadRow> ImageReaders();
// Readers of nodes whose results are usually known (op_readers_known.cc).
std::span<const ReadRow> KnownReaders();
// Readers of normalisations (op_readers_norm.cc).
std::span<const ReadRow> NormReaders();
// Readers of recurrent layers (op_readers_recurrent.cc).
std::span<const ReadRow> RecurrentReaders();
// Reader of Resize (op_readers_resize.cc).
std::span<const ReadRow> ResizeReaders();
// Readers of nodes that change or compute shapes (op_readers_shape.cc).
std::span<const ReadRow> ShapeReaders();

// UNIMPLEMENTED: the attribute "axis" is not the last dimension of `x`.
Status CheckLastAxis(const Node& node, const std::string& x, int64_t fallback);

// UNIMPLEMENTED: the Softmax or LogSoftmax `node` is not over the last dimension.
Status CheckSoftmax(const Node& node);

// Adds the operators for a node of type `type`. UNIMPLEMENTED: there is no operator for it.
Status ConvertNode(const std::string& type, const Node& node);

}  // namespace tandem::onnx
