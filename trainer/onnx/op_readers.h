// Converts ONNX nodes to operators of Tandem.
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

// Returns the readers of activations that become several operators (op_readers_activations.cc).
std::span<const ReadRow> ActivationReaders();
// Returns the readers of the other elementwise nodes (op_readers_elements.cc).
std::span<const ReadRow> ElementReaders();
// Returns the reader of Gather (op_readers_gather.cc).
std::span<const ReadRow> GatherReaders();
// Returns the readers of convolutions and poolings (op_readers_image.cc).
std::span<const ReadRow> ImageReaders();
// Returns the readers of nodes whose results can usually be computed while the model is read
// (op_readers_known.cc).
std::span<const ReadRow> KnownReaders();
// Returns the readers of normalisations (op_readers_norm.cc).
std::span<const ReadRow> NormReaders();
// Returns the readers of nodes that enlarge dimensions (op_readers_pad.cc).
std::span<const ReadRow> PadReaders();
// Returns the readers of recurrent layers (op_readers_recurrent.cc).
std::span<const ReadRow> RecurrentReaders();
// Returns the reader of Resize (op_readers_resize.cc).
std::span<const ReadRow> ResizeReaders();
// Returns the readers of nodes that change or compute shapes (op_readers_shape.cc).
std::span<const ReadRow> ShapeReaders();

// Checks the attribute "axis", which is `fallback` if the node lacks it. UNIMPLEMENTED: the axis is
// not the last dimension of `x`.
Status CheckLastAxis(const Node& node, const std::string& x, int64_t fallback);

// Checks the node, a Softmax or LogSoftmax. UNIMPLEMENTED: the axis of the node is not the last
// dimension.
Status CheckSoftmax(const Node& node);

// Appends the operators for a node of type `type`. UNIMPLEMENTED: Tandem has no reader for the
// type.
Status ConvertNode(const std::string& type, const Node& node);

}  // namespace tandem::onnx
