// Converts ONNX nodes to operators.
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

// Readers of activations that become several operators (op_readers_activations.cc).
std::span<const OnnxReadRow> OnnxActivationReaders();
// Readers of other elementwise nodes (op_readers_elements.cc).
std::span<const OnnxReadRow> OnnxElementReaders();
// Readers of convolutions and poolings (op_readers_image.cc).
std::span<const OnnxReadRow> OnnxImageReaders();
// Readers of nodes whose results are usually known (op_readers_known.cc).
std::span<const OnnxReadRow> OnnxKnownReaders();
// Readers of normalisations (op_readers_norm.cc).
std::span<const OnnxReadRow> OnnxNormReaders();
// Readers of recurrent layers (op_readers_recurrent.cc).
std::span<const OnnxReadRow> OnnxRecurrentReaders();
// Reader of Resize (op_readers_resize.cc).
std::span<const OnnxReadRow> OnnxResizeReaders();
// Readers of nodes that change or compute shapes (op_readers_shape.cc).
std::span<const OnnxReadRow> OnnxShapeReaders();

// Returns the variable X op Y of an elementwise operator. The shape of X or Y must be a contiguous
// part of the other's dimensions.
StatusOr<std::string> OnnxElementwise(const OnnxNode& node, const std::string& type,
                                      const std::string& x, const std::string& y);

// Computes the result now if all inputs are known and not trained. `fn` gets the inputs of one
// element as floats; shorter inputs are repeated. False: not all inputs are known.
StatusOr<bool> FoldOnnx(const OnnxNode& node, float (*fn)(std::span<const float>));

// UNIMPLEMENTED: the attribute "axis" is not the last dimension of `x`.
Status CheckOnnxLastAxis(const OnnxNode& node, const std::string& x, int64_t fallback);

// UNIMPLEMENTED: the Softmax or LogSoftmax `node` is not over the last dimension.
Status CheckOnnxSoftmax(const OnnxNode& node);

// Adds the operators for a node of type `type`. UNIMPLEMENTED: there is no operator for it.
Status ReadOnnxNode(const std::string& type, const OnnxNode& node);

}  // namespace tandem::onnx
