// Programs as ONNX models, in their inference form: opset 12, which older engines (OpenCV 4.6) read
// too. Format: https://onnx.ai/onnx/repo-docs/IR.html, Operators.html.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

inline constexpr int kOnnxOpset = 12;

struct OnnxModel {
  std::string bytes;                         // a serialized ModelProto
  std::vector<std::string> inputs, outputs;  // names of variables of the program
};

// The part of the forward program `program` that computes `outputs`, as ForTest makes it, with
// dropout left out and the values of `tensors` as weights. The batch is a dimension without a size,
// "batch". No `outputs`: whatever loss and metrics take from what needs no label (the logits of a
// classifier); in a program without labels, all that no operator reads.
// NOT_FOUND for an output that is no variable, and a parameter that `tensors` lacks;
// FAILED_PRECONDITION for a tensor of another shape; UNIMPLEMENTED naming an operator that has no
// form in ONNX, and where it stands; RESOURCE_EXHAUSTED above ONNX's 2 GiB.
StatusOr<OnnxModel> ExportOnnx(const Program& program, const trainer::TensorMap& tensors,
                               std::vector<std::string> outputs,
                               const trainer::StringMap& metadata);

}  // namespace tandem::onnx
