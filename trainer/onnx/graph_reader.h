// Builds a program from an ONNX graph. Records for each value of the graph whether it is a variable
// or known numbers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "trainer/onnx/batched_program.h"
#include "trainer/onnx/external_data.h"
#include "trainer/onnx/import.h"
#include "trainer/onnx/known_values.h"

namespace onnx {
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace tandem::onnx {

// The state of the conversion while a graph is read. Not thread-safe.
class GraphReader {
 public:
  // `external`, `host` and `out` must outlive this object.
  GraphReader(int64_t opset, ExternalData& external, Device& host, ImportedModel* out)
      : opset_(opset), tensors_(out->tensors), known_(external, host), program_(out->program) {}

  int64_t opset() const { return opset_; }
  KnownValues& known() { return known_; }
  BatchedProgram& program() { return program_; }

  // Declares an input of the model as the data variable `var`.
  Status AddInput(const ::onnx::ValueInfoProto& input, const std::string& var);
  // Records that the variable `var` has the value `value` of the graph. REQUIRES: `var` is not "".
  void Bind(const std::string& value, const std::string& var);

  // Returns the variable that has the value `value` of the graph. If `value` is known numbers,
  // declares a variable for it. INVALID_ARGUMENT: no earlier node computes `value`.
  StatusOr<std::string> Var(const std::string& value);
  // Like Var, but if `value` is known numbers, the declared variable is a state: it is saved but
  // not trained.
  StatusOr<std::string> State(const std::string& value);
  // Returns the variable of the matrix `value`, [k,n]. With `transposed`, returns the variable of
  // the transposed matrix, [n,k]. Known numbers are transposed during the import, without an
  // operator.
  StatusOr<std::string> Matrix(const std::string& value, bool transposed);
  // Records that the value `value` is the transposed matrix `of`, which is known.
  void AddTransposed(const std::string& value, const std::string& of);
  // Declares a state with the integers `ids`, for an operator that reads indices. Returns its name,
  // which is derived from `base`. REQUIRES: the element type is i64.
  StatusOr<std::string> AddIds(const std::string& base, const Tensor& ids);
  // Names variables that are not trained although the model has them as parameters.
  void SetUntrained(std::set<std::string> names) { untrained_ = std::move(names); }
  // Returns a variable [batch, 1] of ones. A matrix product with this variable repeats numbers for
  // each sample.
  StatusOr<std::string> Ones();

 private:
  StatusOr<std::string> Declare(const std::string& value, graph::VarKind kind, Tensor tensor);
  StatusOr<std::string> Transpose(const std::string& value, const std::string& var);
  // Returns a variable with the numbers of a known value for each sample.
  StatusOr<std::string> Repeated(const std::string& value, const KnownValue& known);

  const int64_t opset_;
  trainer::TensorMap& tensors_;  // values of parameters and states, by variable
  KnownValues known_;
  BatchedProgram program_;
  std::map<std::string, std::string> vars_;    // the variable of each value of the graph
  std::map<std::string, std::string> turned_;  // values that are transposed known matrices
  std::set<std::string> untrained_;
  std::set<std::string> transposed_;  // matrices whose variable is transposed
  std::string ones_, first_input_;
};

}  // namespace tandem::onnx
