// An ONNX graph during its construction: its nodes in order, and their weights and constants.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/require.h"
#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

class GraphWriter {
 public:
  // All arguments must outlive this object. The nodes are added to `graph`.
  GraphWriter(const graph::Program& program, const trainer::TensorMap& tensors,
              ::onnx::GraphProto& graph)
      : program_(program), tensors_(tensors), graph_(graph) {}

  // Returns the ONNX value of variable `var`. At the first call for a parameter or state, adds an
  // initializer with the variable's name. NOT_FOUND: there is no tensor for `var`.
  // FAILED_PRECONDITION: tensor and variable differ in shape or type.
  StatusOr<std::string> Value(const std::string& var);
  // Returns an initializer with the transposed matrix of the parameter `var`: [n,k] for [k,n].
  StatusOr<std::string> Transposed(const std::string& var);
  // Returns an initializer with the table `var` in which row `row` is zero.
  StatusOr<std::string> WithZeroRow(const std::string& var, int64_t row);
  bool IsWeight(const std::string& var) const;

  // Makes Value(var) return the existing value `value` from this call on. REQUIRES: `value` is not
  // "".
  void Alias(const std::string& var, const std::string& value) {
    TD_REQUIRE(!value.empty());
    values_[{var, ""}] = value;
  }

  // Adds a node. Attributes of type bool, integer, float, string and list are converted to ONNX's
  // attribute types.
  void Node(const char* type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const ops::AttrMap& attrs = {});
  // Adds a node with one output, and returns the new name of this output.
  std::string Temp(const char* type, const std::vector<std::string>& inputs,
                   const ops::AttrMap& attrs = {});

  // Ints, Float and Floats return an initializer with the numbers. Equal numbers share one
  // initializer. Floats treats numbers with the same `key` as equal.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Float(double value);
  std::string Floats(const std::string& key, const std::vector<int64_t>& dims,
                     const std::vector<float>& values);

 private:
  StatusOr<const Tensor*> Weight(const std::string& var) const;
  std::string Add(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                  std::string bytes);
  // Returns an unused name: `base`, with a number as suffix if another value or variable already
  // has the name `base`.
  std::string NewName(const std::string& base);

  const graph::Program& program_;
  const trainer::TensorMap& tensors_;
  ::onnx::GraphProto& graph_;
  // ONNX values, by variable and form (plain, transposed, with a zero row).
  std::map<std::pair<std::string, std::string>, std::string> values_;
  std::map<std::string, std::string> constants_;  // names of constant initializers, by their keys
  std::set<std::string> names_;                   // all names that are in use
  int numbers_ = 0;                               // number for the next suffix of a new name
};

// Returns ONNX's number for an element type. ONNX has all element types of Tandem.
int ElementTypeNumber(DType dtype);

}  // namespace tandem::onnx
