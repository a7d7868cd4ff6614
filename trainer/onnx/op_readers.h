// Nodes of ONNX as operators.
#pragma once

#include <span>
#include <string>

#include "trainer/onnx/graph_reader.h"

namespace tandem::onnx {

using OnnxReadFn = Status (*)(const OnnxNode& node);

struct OnnxReadRow {
  const char* type;
  OnnxReadFn read;
};

// The readers of activations that become several operators (op_readers_activations.cc).
std::span<const OnnxReadRow> OnnxActivationReaders();
// Those of other nodes that work element by element (op_readers_elements.cc).
std::span<const OnnxReadRow> OnnxElementReaders();
// Those of convolutions and poolings (op_readers_image.cc).
std::span<const OnnxReadRow> OnnxImageReaders();
// Those of nodes that give numbers which are mostly known (op_readers_known.cc).
std::span<const OnnxReadRow> OnnxKnownReaders();
// Those of normalisations (op_readers_norm.cc).
std::span<const OnnxReadRow> OnnxNormReaders();
// Those of recurrent layers (op_readers_recurrent.cc).
std::span<const OnnxReadRow> OnnxRecurrentReaders();
// That of Resize (op_readers_resize.cc).
std::span<const OnnxReadRow> OnnxResizeReaders();
// Those of nodes that change or compute shapes (op_readers_shape.cc).
std::span<const OnnxReadRow> OnnxShapeReaders();

// A variable, X op Y, for an elementwise operator, one of X and Y a run of the other's dimensions.
StatusOr<std::string> OnnxElementwise(const OnnxNode& node, const std::string& type,
                                      const std::string& x, const std::string& y);

// Where all inputs are known and not trained, the result is known: fn of an element's inputs, as
// floats, shorter inputs repeated. False: they are not.
StatusOr<bool> FoldOnnx(const OnnxNode& node, float (*fn)(std::span<const float>));

// UNIMPLEMENTED unless the attribute "axis" names the last dimension of `x`.
Status CheckOnnxLastAxis(const OnnxNode& node, const std::string& x, int64_t fallback);

// UNIMPLEMENTED unless Softmax or LogSoftmax `node` is over the last dimension.
Status CheckOnnxSoftmax(const OnnxNode& node);

// Adds what a node of type `type` computes. UNIMPLEMENTED where there is no operator for it.
Status ReadOnnxNode(const std::string& type, const OnnxNode& node);

}  // namespace tandem::onnx
