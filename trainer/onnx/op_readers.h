// Nodes of ONNX as operators.
#pragma once

#include <string>

#include "trainer/onnx/graph_reader.h"

namespace tandem {

using OnnxReadFn = Status (*)(const OnnxNode& node);

struct OnnxReadRow {
  const char* type;
  OnnxReadFn read;
};

// The readers of convolutions, poolings and batch normalisation (op_readers_image.cc).
std::span<const OnnxReadRow> OnnxImageReaders();
// Those of nodes that change or compute shapes (op_readers_shape.cc).
std::span<const OnnxReadRow> OnnxShapeReaders();

// UNIMPLEMENTED unless Softmax or LogSoftmax `node` is over the last dimension.
Status CheckOnnxSoftmax(const OnnxNode& node);

// Adds what a node of type `type` computes. UNIMPLEMENTED where there is no operator for it.
Status ReadOnnxNode(const std::string& type, const OnnxNode& node);

}  // namespace tandem
