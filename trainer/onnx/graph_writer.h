// An ONNX graph while it is written: the nodes in order, and the weights and constants that they
// use.
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
  // All arguments must outlive this object.
  GraphWriter(const Program& program, const trainer::TensorMap& tensors, ::onnx::GraphProto& graph)
      : program_(program), tensors_(tensors), graph_(graph) {}

  // Returns the ONNX value that holds variable `var`. A parameter or state becomes an initializer
  // with its own name at the first request. NOT_FOUND and FAILED_PRECONDITION as for ExportModel.
  StatusOr<std::string> Value(const std::string& var);
  // Transformed copies of a variable become separate initializers. This one is the transpose: [n,k]
  // of a parameter [k,n].
  StatusOr<std::string> Transposed(const std::string& var);
  // A table in which row `row` is zero.
  StatusOr<std::string> WithZeroRow(const std::string& var, int64_t row);
  bool IsWeight(const std::string& var) const;

  // Makes `var` refer to the existing value `value` from now on.
  // REQUIRES: `value` has a name.
  void Alias(const std::string& var, const std::string& value) {
    TD_REQUIRE(!value.empty());
    values_[{var, ""}] = value;
  }

  // Adds a node. Attributes of type bool, integer, float, string and list become ONNX's.
  void Node(const char* type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const AttrMap& attrs = {});
  // Adds a node with one output of a new name.
  std::string Temp(const char* type, const std::vector<std::string>& inputs,
                   const AttrMap& attrs = {});

  // Return initializers. Equal ones are written once; those with the same `key` are equal.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Float(double value);
  std::string Floats(const std::string& key, const std::vector<int64_t>& dims,
                     const std::vector<float>& values);

 private:
  StatusOr<const Tensor*> Weight(const std::string& var) const;
  std::string Add(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                  std::string bytes);
  // Returns `base`, with a number as suffix if necessary. The name is unused by other values and
  // variables.
  std::string NewName(const std::string& base);

  const Program& program_;
  const trainer::TensorMap& tensors_;
  ::onnx::GraphProto& graph_;
  std::map<std::pair<std::string, std::string>, std::string> values_;  // by variable and form
  std::map<std::string, std::string> constants_;                       // by their keys
  std::set<std::string> names_;                                        // names in use
  int numbers_ = 0;                                                    // counter for new names
};

// ONNX's number of an element type. ONNX has all of Tandem's types.
int ElementTypeNumber(DType dtype);

}  // namespace tandem::onnx
