// A node of an ONNX graph while it is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/onnx/attributes.h"
#include "trainer/onnx/graph_reader.h"

namespace tandem::onnx {

// Not thread-safe.
class Node {
 public:
  // Both must outlive this object.
  Node(const ::onnx::NodeProto& node, GraphReader& graph)
      : node_(node), graph_(graph), attributes_(node) {}

  GraphReader& graph() const { return graph_; }
  int64_t opset() const { return graph_.opset(); }
  const Attributes& attributes() const { return attributes_; }
  const std::string& name() const;

  size_t inputs() const;
  bool has(size_t input) const;
  // REQUIRES: input < inputs().
  const std::string& value(size_t input) const;
  // Returns the variable of an input. INVALID_ARGUMENT: the node lacks the input.
  StatusOr<std::string> in(size_t input) const;
  // Returns integers that must be known. UNIMPLEMENTED: the model computes them.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // Like ConstantInts, for sizes that may contain kBatch.
  StatusOr<std::vector<int64_t>> ConstantSizes(size_t input) const;
  // Like ConstantSizes, for a list; nullopt: the input is not a known list.
  std::optional<std::vector<int64_t>> Known(size_t input) const;
  // Calls KnownValues::Scalar for an input that may be absent.
  const float* Scalar(size_t input) const;
  // Returns axes that are an attribute up to opset `last` and an input in later opsets. The axes
  // are made non-negative for a tensor of rank `rank`. INVALID_ARGUMENT: an axis is out of range.
  StatusOr<std::vector<int64_t>> Axes(int64_t last, int rank) const;

  size_t outputs() const;
  // REQUIRES: output < outputs().
  const std::string& out(size_t output = 0) const;
  // Set the node's result to known numbers.
  Status Know(const std::vector<int64_t>& list) const;
  void Know(Tensor value) const;
  // Sets the node's result to `var`.
  Status Is(const std::string& var) const;
  // Sets the node's result to `var` with other sizes.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes) const;
  StatusOr<std::string> TempReshape(const std::string& var,
                                    const std::vector<int64_t>& sizes) const;
  // Appends the last operator of the node.
  Status Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
              AttrMap attrs = {}) const;
  // Appends an earlier operator and returns its variable.
  StatusOr<std::string> Temp(const std::string& type, std::vector<std::vector<std::string>> inputs,
                             AttrMap attrs = {}) const;

 private:
  const ::onnx::NodeProto& node_;
  GraphReader& graph_;
  const Attributes attributes_;
};

// Makes the axis of a tensor of rank `rank` non-negative. INVALID_ARGUMENT: it is out of range.
StatusOr<int64_t> NonNegativeAxis(int64_t axis, int rank);

}  // namespace tandem::onnx
