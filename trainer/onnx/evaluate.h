// Computes the results of nodes while an ONNX model is read, if all inputs of a node are known
// numbers. Such a node needs no operator in the program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/onnx/known_values.h"
#include "trainer/onnx/node.h"

namespace tandem::onnx {

// The result of a node. nullopt: the result cannot be known while the model is read, because it
// depends on the batch in a way that KnownTable cannot represent.
using Evaluated = StatusOr<std::optional<KnownTable>>;

// A row of a table of node types: `fn` computes nodes of type `type`. `fn` gets the inputs of the
// node; the table of a missing input has no numbers. `fn` returns INVALID_ARGUMENT if the inputs
// contradict each other, and UNIMPLEMENTED if an attribute is not supported.
struct EvaluateRow {
  const char* type;
  Evaluated (*fn)(const Node& node, std::vector<KnownTable>& inputs);
};

// Computes the result of `node`, of type `type`, and sets it as the node's result. Returns false if
// an input is not known or is a trained parameter, or if the result cannot be known.
StatusOr<bool> Evaluate(const std::string& type, const Node& node);

// The largest number of elements of a result that Evaluate computes.
inline constexpr int64_t kEvaluatedMax = int64_t{1} << 22;

// Returns the integers of `table` as a list of sizes. nullopt: the table has fractions, or its
// numbers differ between the samples of a batch.
std::optional<std::vector<int64_t>> ListOf(const KnownTable& table);

// The shape that results from broadcasting several tables, and the dimension of this shape that is
// the batch (-1: none).
struct JointShape {
  Shape shape;
  int batch = -1;
};
// Returns the shape to which `tables` are broadcast. nullopt: two dimensions of the shape depend on
// the batch, or a dimension depends on the batch in one table and has a fixed size above 1 in
// another table. INVALID_ARGUMENT: the shapes cannot be broadcast to a common shape.
StatusOr<std::optional<JointShape>> JointOf(std::span<const KnownTable> tables);

// Returns the index of the element of `from` that broadcasting to `shape` repeats at element `i`.
int64_t BroadcastSource(const Shape& from, const Shape& shape, int64_t i);

}  // namespace tandem::onnx
