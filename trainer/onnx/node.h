// A node of an ONNX graph, for the function that reads the node.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/onnx/attributes.h"
#include "trainer/onnx/graph_reader.h"

namespace tandem::onnx {

// Gives access to the inputs and attributes of a node, and sets its results. Not thread-safe.
class Node {
 public:
  // `node` and `graph` must outlive this object.
  Node(const ::onnx::NodeProto& node, GraphReader& graph)
      : node_(node), graph_(graph), attributes_(node) {}

  GraphReader& graph() const { return graph_; }
  int64_t opset() const { return graph_.opset(); }
  const Attributes& attributes() const { return attributes_; }
  const std::string& name() const;

  size_t inputs() const;
  bool has(size_t input) const;
  // Returns the name of an input's value. REQUIRES: input < inputs().
  const std::string& value(size_t input) const;
  // Returns the variable of input number `input`. INVALID_ARGUMENT: the node lacks this input.
  StatusOr<std::string> in(size_t input) const;
  // Returns the integers of an input, which must be known. UNIMPLEMENTED: a node of the model
  // computes them.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // Returns the sizes of an input, which must be known and may contain kBatch. UNIMPLEMENTED: a
  // node of the model computes them.
  StatusOr<std::vector<int64_t>> ConstantSizes(size_t input) const;
  // Returns the sizes of an input, which may contain kBatch. nullopt: the input is not a known
  // list.
  std::optional<std::vector<int64_t>> Known(size_t input) const;
  // Returns KnownValues::Scalar of an input; nullptr also if the node lacks the input.
  const float* Scalar(size_t input) const;
  // Returns the axes of the node, which are an attribute up to opset `last`, and an input in later
  // opsets. Negative axes are converted for a tensor of rank `rank`. INVALID_ARGUMENT: an axis is
  // out of range.
  StatusOr<std::vector<int64_t>> Axes(int64_t last, int rank) const;

  size_t outputs() const;
  // Returns the name of an output's value. REQUIRES: output < outputs().
  const std::string& out(size_t output = 0) const;
  // Set the result of the node to known numbers.
  Status Know(const std::vector<int64_t>& list) const;
  void Know(Tensor value) const;
  // Sets the result of the node to the variable `var`.
  Status Is(const std::string& var) const;
  // Reshapes `var` to `sizes`, and sets the result of the node to the reshaped variable.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes) const;
  StatusOr<std::string> TempReshape(const std::string& var,
                                    const std::vector<int64_t>& sizes) const;
  // Appends the last operator for the node; its output is the result of the node.
  Status Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
              ops::AttrMap attrs = {}) const;
  // Appends an intermediate operator for the node, and returns the variable of its output.
  StatusOr<std::string> Temp(const std::string& type, std::vector<std::vector<std::string>> inputs,
                             ops::AttrMap attrs = {}) const;

 private:
  const ::onnx::NodeProto& node_;
  GraphReader& graph_;
  const Attributes attributes_;
};

// Converts a negative axis of a tensor of rank `rank`. INVALID_ARGUMENT: the axis is out of range.
StatusOr<int64_t> NonNegativeAxis(int64_t axis, int rank);

}  // namespace tandem::onnx
