// ONNX models as forward programs that can be trained. Opsets 7 to 21.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

inline constexpr int kOnnxOpsetMin = 7, kOnnxOpsetMax = 21;

struct OnnxImportOptions {
  // Inputs of the model, to data variables. An only input of four dimensions is "img" unless given.
  std::map<std::string, std::string> rename;
  std::string output;  // of the model; empty: its only one
  std::string folder;  // of the model, where files with its numbers are; empty: there are none
  // What is trained. Softmax: the output [batch, ..., classes] are logits of the i64 variable
  // "label" [batch, ...], [batch, 1] when that is all; a softmax at the end is left out. Sigmoid:
  // the same, label shaped as the output.
  enum class Loss { kSoftmax, kSigmoid, kNone };
  Loss loss = Loss::kSoftmax;
};

struct OnnxImport {
  Program program;                 // bound to some batch
  trainer::TensorMap tensors;      // values of its parameters and states
  std::vector<std::string> notes;  // what the user should know
};

// Reads a serialized ModelProto; `name` begins every message, `host` gives memory for tensors.
// Trained become initializers that are finite floats; running statistics, what Constant nodes hold
// and what PyTorch notes as a buffer become states. The first dimension of every input is the
// batch, which may have any size. DATA_LOSS for bytes that are no such model, or tensors that do
// not have the bytes that their shape needs; UNIMPLEMENTED naming node, operator and attribute that
// have no counterpart; INVALID_ARGUMENT for a graph that is wrong in itself or options that do not
// fit.
StatusOr<OnnxImport> ImportOnnx(std::string_view bytes, const std::string& name,
                                const OnnxImportOptions& options, Device& host);

}  // namespace tandem::onnx
