// Texts for fuzz tests of program files: a program with a loss, and fragments that mutations
// insert.
#pragma once

#include <string>
#include <vector>

#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "kernels/graph/autodiff.h"
#include "kernels/graph/optimizer.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"

namespace tandem {

inline constexpr char kProgramText[] = R"(name: "net"
var { name: "img" kind: DATA dims: -1 dims: 3 dims: 8 dims: 8 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "conv.w" kind: PARAM dims: 4 dims: 3 dims: 3 dims: 3 init { kind: XAVIER_UNIFORM } }
var { name: "fc.w" kind: PARAM dims: 64 dims: 10 init { kind: XAVIER_UNIFORM } }
var { name: "fc.b" kind: PARAM dims: 10 }
op {
  type: "conv2d"
  input { slot: "Input" var: "img" }
  input { slot: "Filter" var: "conv.w" }
  output { slot: "Output" var: "c" }
  attr { name: "strides" ints { v: 1 v: 1 } }
  attr { name: "paddings" ints { v: 1 v: 1 } }
}
op {
  type: "pool2d"
  input { slot: "X" var: "c" }
  output { slot: "Out" var: "p" }
  attr { name: "ksize" ints { v: 2 v: 2 } }
  attr { name: "strides" ints { v: 2 v: 2 } }
}
op { type: "relu" input { slot: "X" var: "p" } output { slot: "Out" var: "r" } }
op {
  type: "reshape"
  input { slot: "X" var: "r" }
  output { slot: "Out" var: "flat" }
  attr { name: "shape" ints { v: 0 v: 64 } }
}
op {
  type: "fc"
  input { slot: "Input" var: "flat" }
  input { slot: "W" var: "fc.w" }
  input { slot: "Bias" var: "fc.b" }
  output { slot: "Out" var: "logits" }
}
op {
  type: "softmax_with_cross_entropy"
  input { slot: "Logits" var: "logits" }
  input { slot: "Label" var: "label" }
  output { slot: "Softmax" var: "softmax" }
  output { slot: "Loss" var: "losses" }
}
op { type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" } }
loss: "loss"
)";

inline constexpr const char* kProgramPieces[] = {"{",
                                                 "}",
                                                 "[",
                                                 ":",
                                                 "\"",
                                                 "-1",
                                                 "0",
                                                 "999999999999999999",
                                                 "-9223372036854775808",
                                                 "dims: 0",
                                                 "dims: -1",
                                                 "dims: 4294967296",
                                                 "kind: STATE",
                                                 "dtype: F16",
                                                 "dtype: U8",
                                                 "var: \"img\"",
                                                 "var: \"c\"",
                                                 "slot: \"X\"",
                                                 "v: 0",
                                                 "v: -3",
                                                 "v: 2147483647",
                                                 "type: \"sum\"",
                                                 "type: \"transpose\"",
                                                 "type: \"batch_norm\"",
                                                 "type: \"lookup_table\"",
                                                 "type: \"sgd\"",
                                                 "type: \"c_allreduce_sum\"",
                                                 "f: 1e999",
                                                 "\xff",
                                                 "init { kind: CONSTANT a: 1e30 }",
                                                 "loss: \"c\"",
                                                 "attr { name: \"axis\" i: 7 }"};

inline StatusOr<graph::Program> ParseProgram(const std::string& text) {
  pb::ProgramDef def;
  strategy::Diagnostics diagnostics;
  strategy::ParseTextProto({"net.pbtxt", text}, &def, nullptr, &diagnostics);
  TD_RETURN_IF_ERROR(diagnostics.status());
  return graph::FromProto(def, 8, "net.pbtxt");
}

// Parses `text` and builds the program, as a trainer does before it plans memory.
inline Status BuildProgram(const std::string& text, graph::Program* program) {
  TD_ASSIGN_OR_RETURN(*program, ParseProgram(text));
  TD_ASSIGN_OR_RETURN(const std::vector<graph::ParamGrad> grads,
                      graph::AppendBackward(*program, 1.0f));
  graph::OptimizerSpec momentum;
  momentum.type = "momentum";
  return graph::AppendOptimizer(*program, momentum, grads);
}

}  // namespace tandem
