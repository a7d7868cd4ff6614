// Imports ONNX models of opsets 7 to 21 as forward programs that can be trained.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace tandem::onnx {

inline constexpr int kOpsetMin = 7, kOpsetMax = 21;

struct ImportOptions {
  // The name of the data variable for each input of the model. By default, a single input with four
  // dimensions becomes "img".
  std::map<std::string, std::string> rename;
  // Initializers that are constants. Names of variables that were made of initializers also count.
  std::set<std::string> constants;
  // Variables that were made of parameters and that the program must not train. The import reads
  // these parameters like trained ones, but the variables are states.
  std::set<std::string> frozen;
  // Initializers without dimensions that are parameters. Other initializers without dimensions are
  // constant factors.
  std::set<std::string> scalars;
  std::string output;  // name of the model's output to use; empty: the model's only output
  std::string dir;     // directory of the model's data files; empty: no directory
  // The loss of the training program. kSoftmax: the output [batch, ..., classes] has logits, and
  // the i64 variable "label" [batch, ...] has the classes. The label is [batch, 1] if the output
  // has two dimensions. kSigmoid: the output has logits, and the label has the shape of the output.
  // The import removes a final softmax (kSoftmax) or sigmoid (kSigmoid), because the loss includes
  // it. kNone: the program has no loss.
  enum class Loss { kSoftmax, kSigmoid, kNone };
  static constexpr const char* kLossNames[] = {"softmax", "sigmoid", "none"};  // by Loss
  Loss loss = Loss::kSoftmax;
};

struct ImportedModel {
  graph::Program program;      // the forward program, built for an arbitrary batch size
  trainer::TensorMap tensors;  // values of the program's parameters and states
  std::string output;          // the variable of the output, or of the logits if there is a loss
  std::vector<std::string> notes;  // messages about the import, for the user
};

// Imports a serialized ModelProto. Every message begins with `name`. The tensors are in memory of
// `host`. The first dimension of every input is the batch, which may have any size. Initializers of
// finite floats with at least one dimension become parameters. Initializers without dimensions are
// constants, except those in `scalars`, in PyTorch's metadata, and slopes. Running statistics,
// constants of Constant nodes, and tensors that are buffers according to PyTorch's metadata become
// states. DATA_LOSS: the bytes are no model, or a tensor has fewer bytes than its shape needs.
// UNIMPLEMENTED: Tandem has no counterpart of a node; the message names the node, the operator and
// the attribute. INVALID_ARGUMENT: the graph is inconsistent, or the options do not suit the model.
StatusOr<ImportedModel> ImportModel(std::string_view bytes, const std::string& name,
                                    const ImportOptions& options, Device& host);

}  // namespace tandem::onnx
