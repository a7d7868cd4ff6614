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
  const std::string& op_type() const;

  size_t inputs() const;
  bool has(size_t input) const;
  // Returns the name of an input's value. REQUIRES: input < inputs().
  const std::string& value(size_t input) const;
  // Returns the variable of input number `input`. INVALID_ARGUMENT: the node lacks this input.
  StatusOr<std::string> in(size_t input) const;
  // Returns the integers of an input, which must be known. UNIMPLEMENTED: the input is not known,
  // because a node of the model computes it.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // Returns the sizes of an input, which must be known. A size may be kBatch + k. UNIMPLEMENTED:
  // the input is not known, because a node of the model computes it.
  StatusOr<std::vector<int64_t>> ConstantSizes(size_t input) const;
  // Returns the sizes of an input, or nullopt if the input is not a known list. A size may be
  // kBatch + k.
  std::optional<std::vector<int64_t>> Known(size_t input) const;
  // Returns KnownValues::Scalar of an input. nullptr: the input is no such number, or the node
  // lacks it.
  const float* Scalar(size_t input) const;
  // Returns the axes of the node. Up to opset `last` they are an attribute, in later opsets an
  // input. Converts negative axes, for a tensor of rank `rank`. INVALID_ARGUMENT: an axis is out of
  // range.
  StatusOr<std::vector<int64_t>> Axes(int64_t last, int rank) const;

  size_t outputs() const;
  // Returns the name of an output's value. REQUIRES: output < outputs().
  const std::string& out(size_t output = 0) const;
  // The two Know methods set the result of the node to known numbers.
  Status Know(const std::vector<int64_t>& list) const;
  void Know(Tensor value) const;
  // Sets the result of the node to the variable `var`.
  Status Is(const std::string& var) const;
  // Reshapes `var` to `sizes`, and sets the result of the node to the reshaped variable.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes) const;
  StatusOr<std::string> TempReshape(const std::string& var,
                                    const std::vector<int64_t>& sizes) const;
  // Appends the last operator for the node. The output of this operator is the result of the node.
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

// Returns the number of an axis of a tensor of rank `rank`; a negative `axis` counts from the end.
// INVALID_ARGUMENT: the axis is out of range.
StatusOr<int64_t> NonNegativeAxis(int64_t axis, int rank);

}  // namespace tandem::onnx
