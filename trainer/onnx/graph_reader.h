// Builds a program from an ONNX graph. It records which of the graph's values are variables and
// which are known numbers.
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

// Not thread-safe.
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
  // `value` is computed, and `var` holds it. REQUIRES: `var` has a name.
  void Bind(const std::string& value, const std::string& var);

  // Returns the variable that holds `value`. INVALID_ARGUMENT: no earlier node computes it.
  StatusOr<std::string> Var(const std::string& value);
  // Like Var, for a value that is saved but not trained.
  StatusOr<std::string> State(const std::string& value);
  // Returns a matrix variable. If `transposed`, it is [n,k] for `value` [k,n]; known numbers are
  // transposed immediately.
  StatusOr<std::string> Matrix(const std::string& value, bool transposed);
  // Returns a column of ones, [batch, 1], with which values can be repeated for each sample.
  StatusOr<std::string> Ones();

 private:
  StatusOr<std::string> Declare(const std::string& value, VarKind kind, Tensor tensor);
  StatusOr<std::string> Transpose(const std::string& value, const std::string& var);

  const int64_t opset_;
  trainer::TensorMap& tensors_;  // values of the parameters and states
  KnownValues known_;
  BatchedProgram program_;
  std::map<std::string, std::string> vars_;  // by value
  std::set<std::string> transposed_;         // values whose variable is transposed
  std::string ones_, first_input_;
};

}  // namespace tandem::onnx
