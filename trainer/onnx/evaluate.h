// Computes nodes while a model is read, if all their inputs are known.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/onnx/known_table.h"
#include "trainer/onnx/node.h"

namespace tandem::onnx {

// The result of a node. nullopt: the result cannot be known, because it depends on the batch in
// another form than KnownTable has.
using Evaluated = StatusOr<std::optional<KnownTable>>;

// A row of a table of node types. `fn` gets the inputs of the node; a missing input has no numbers.
// INVALID_ARGUMENT: the inputs contradict each other. UNIMPLEMENTED: an attribute is not supported.
struct EvaluateRow {
  const char* type;
  Evaluated (*fn)(const Node& node, std::vector<KnownTable>& inputs);
};

// Computes the result of the node of type `type` if all its inputs are known and none of them is
// trained. Returns false if an input is not known, or if the result cannot be known.
StatusOr<bool> Evaluate(const std::string& type, const Node& node);

// The largest number of elements of a result.
inline constexpr int64_t kEvaluatedMax = int64_t{1} << 22;

// The sizes of a list. nullopt: the table has fractions or depends on the number of the sample.
std::optional<std::vector<int64_t>> ListOf(const KnownTable& table);

// The shape that results from broadcasting tables, and the dimension that is the batch.
struct JointShape {
  Shape shape;
  int batch = -1;
};
// Returns nullopt if two dimensions depend on the batch, or if one does that has another size in
// another table. INVALID_ARGUMENT: the shapes do not match.
StatusOr<std::optional<JointShape>> JointOf(std::span<const KnownTable> tables);

// Returns the index of the element of `from` that broadcasting to `shape` repeats at element `i`.
int64_t BroadcastSource(const Shape& from, const Shape& shape, int64_t i);

}  // namespace tandem::onnx
