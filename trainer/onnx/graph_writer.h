// An ONNX graph while it is written: nodes in order, and the weights and constants that they use.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/files/safetensors.h"

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace tandem::onnx {

class OnnxGraphWriter {
 public:
  // All must outlive this.
  OnnxGraphWriter(const Program& program, const trainer::TensorMap& tensors,
                  ::onnx::GraphProto& graph)
      : program_(program), tensors_(tensors), graph_(graph) {}

  // The ONNX value that holds variable `var`; a parameter or state becomes an initializer of its
  // own name when it is asked for first. NOT_FOUND and FAILED_PRECONDITION as ExportOnnx.
  StatusOr<std::string> Value(const std::string& var);
  // Forms of it are initializers beside it: [n,k] of a parameter [k,n].
  StatusOr<std::string> Transposed(const std::string& var);
  // A table whose row `row` is zero, whatever it holds.
  StatusOr<std::string> WithZeroRow(const std::string& var, int64_t row);
  bool IsWeight(const std::string& var) const;

  // From now on `var` is what `value` is.
  void Alias(const std::string& var, const std::string& value) { values_[{var, ""}] = value; }

  // Adds a node; bool, integer, float, string and list attributes become ONNX's.
  void Node(const char* type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const AttrMap& attrs = {});
  // The same with one output of a new name.
  std::string Temp(const char* type, const std::vector<std::string>& inputs,
                   const AttrMap& attrs = {});

  // Initializers; equal ones are written once. Those with the same `key` are equal.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Float(double value);
  std::string Floats(const std::string& key, const std::vector<int64_t>& dims,
                     const std::vector<float>& values);

 private:
  StatusOr<const Tensor*> Weight(const std::string& var) const;
  std::string Add(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                  std::string bytes);
  // `base`, or with a number behind it: no other value's, and no variable's.
  std::string NewName(const std::string& base);

  const Program& program_;
  const trainer::TensorMap& tensors_;
  ::onnx::GraphProto& graph_;
  std::map<std::pair<std::string, std::string>, std::string> values_;  // of variables in a form
  std::map<std::string, std::string> constants_;                       // by their keys
  std::set<std::string> names_;                                        // that were made
  int numbers_ = 0;                                                    // in them
};

// ONNX's number of an element type; it has all of them.
int OnnxType(DType dtype);

}  // namespace tandem::onnx
