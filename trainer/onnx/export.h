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
  std::string bytes;                         // a serialized ModelProto
  std::vector<std::string> inputs, outputs;  // names of variables of the program
};

// Exports the part of the forward program `program` that computes `outputs`, in the form of ForTest
// and without dropout. The weights are the values of `tensors`. The batch is a dimension without a
// fixed size, named "batch".
// If `outputs` is empty, the outputs are the values that loss and metrics read and that do not
// depend on a label (the logits of a classifier). In a program without labels they are all values
// that no operator reads.
// NOT_FOUND: an output is not a variable, or `tensors` lacks a parameter. FAILED_PRECONDITION: a
// tensor has another shape. UNIMPLEMENTED (names the operator and its position): it has no ONNX
// form. RESOURCE_EXHAUSTED: the model exceeds ONNX's limit of 2 GiB.
StatusOr<ExportedModel> ExportModel(const Program& program, const trainer::TensorMap& tensors,
                                    std::vector<std::string> outputs,
                                    const trainer::StringMap& metadata);

}  // namespace tandem::onnx
