// Imports ONNX models as forward programs that can be trained. Opsets 7 to 21.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

inline constexpr int kOpsetMin = 7, kOpsetMax = 21;

struct ImportOptions {
  // Maps inputs of the model to data variables. A single input with four dimensions is "img" by
  // default.
  std::map<std::string, std::string> rename;
  std::string output;  // output of the model to use; empty: its only one
  std::string dir;     // directory of the model's data files; empty: there are none
  // The loss of the training program.
  // kSoftmax: the output [batch, ..., classes] contains logits of the i64 variable "label" [batch,
  // ...], which is [batch, 1] if there are no other dimensions. A final softmax is removed.
  // kSigmoid: likewise, with a label that has the shape of the output.
  enum class Loss { kSoftmax, kSigmoid, kNone };
  Loss loss = Loss::kSoftmax;
};

struct ImportedModel {
  Program program;                 // built for some batch size
  trainer::TensorMap tensors;      // values of its parameters and states
  std::vector<std::string> notes;  // messages for the user
};

// Imports a serialized ModelProto. `name` is the prefix of every message, and `host` allocates the
// tensors. The first dimension of every input is the batch, which may have any size.
// Initializers of finite floats become parameters. Running statistics, contents of Constant nodes
// and buffers according to PyTorch's metadata become states.
// DATA_LOSS: the bytes are not a model, or tensors lack bytes that their shape needs. UNIMPLEMENTED
// (names node, operator and attribute): Tandem has no counterpart. INVALID_ARGUMENT: the graph is
// inconsistent, or the options do not fit.
StatusOr<ImportedModel> ImportModel(std::string_view bytes, const std::string& name,
                                    const ImportOptions& options, Device& host);

}  // namespace tandem::onnx
