// A program file with one layer over images of 1 x 28 x 28 and 10 classes.
#pragma once

namespace tandem {

inline constexpr char kSoftmaxProgram[] = R"(
name: "softmax_file"
var { name: "img" kind: DATA dtype: F32 dims: -1 dims: 1 dims: 28 dims: 28 }
var { name: "label" kind: DATA dtype: I64 dims: -1 dims: 1 }
var { name: "w" kind: PARAM dims: 784 dims: 10 init { kind: XAVIER_UNIFORM } }
var { name: "b" kind: PARAM dims: 10 }
var { name: "flat" }
op {
  type: "reshape"
  input { slot: "X" var: "img" }
  output { slot: "Out" var: "flat" }
  attr { name: "shape" ints { v: 0 v: 784 } }
}
op {
  type: "fc"
  input { slot: "Input" var: "flat" }
  input { slot: "W" var: "w" }
  input { slot: "Bias" var: "b" }
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
op {
  type: "accuracy"
  input { slot: "Out" var: "softmax" }
  input { slot: "Label" var: "label" }
  output { slot: "Accuracy" var: "acc" }
}
loss: "loss"
metric: "acc"
)";

}  // namespace tandem
