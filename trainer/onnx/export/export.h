// Exports the inference form of programs as ONNX models. The opset is 12, so that older engines
// (OpenCV 4.6) can read the models. Format: https://onnx.ai/onnx/repo-docs/IR.html, Operators.html.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

inline constexpr int kOpset = 12;

struct ExportedModel {
  std::string bytes;  // the ONNX model, a serialized ModelProto
  // Names of the program's variables that are inputs and outputs.
  std::vector<std::string> inputs, outputs;
};

// Exports the part of the forward program `program` that computes `outputs`, in the form of ForTest
// and without dropout. The weights are the values in `tensors`. The batch is a dimension without a
// fixed size, named "batch". If `outputs` is empty, ExportModel exports the values that loss and
// metrics read and that do not depend on a label (for example the logits of a classifier). For a
// program without labels, it then exports all values that no operator reads. NOT_FOUND: an output
// is no variable, or `tensors` lacks a parameter. FAILED_PRECONDITION: a tensor and its variable
// differ in shape. UNIMPLEMENTED: an operator has no ONNX form; the message names the operator and
// its position. RESOURCE_EXHAUSTED: the model exceeds the limit of ONNX, 2 GiB.
StatusOr<ExportedModel> ExportModel(const graph::Program& program,
                                    const trainer::TensorMap& tensors,
                                    std::vector<std::string> outputs,
                                    const trainer::StringMap& metadata);

}  // namespace tandem::onnx
