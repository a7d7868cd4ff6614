// An ONNX graph while it is written: nodes in order, and the weights and constants that they use.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/graph/program.h"
#include "trainer/safetensors.h"

namespace onnx {
class GraphProto;
class TensorProto;
}  // namespace onnx

namespace tandem {

class OnnxGraphWriter {
 public:
  // All must outlive this.
  OnnxGraphWriter(const Program& program, const TensorMap& tensors, onnx::GraphProto& graph)
      : program_(program), tensors_(tensors), graph_(graph) {}

  // The ONNX value that holds variable `var`; a parameter or state becomes an initializer when it
  // is asked for first. NOT_FOUND and FAILED_PRECONDITION as ExportOnnx.
  StatusOr<std::string> Value(const std::string& var);
  // The same, [n,k] of a parameter [k,n].
  StatusOr<std::string> Transposed(const std::string& var);
  // A table whose row `row` is zero, whatever it holds.
  StatusOr<std::string> WithZeroRow(const std::string& var, int64_t row);
  bool IsWeight(const std::string& var) const;

  // From now on `var` is what `value` is.
  void Alias(const std::string& var, const std::string& value) { values_[var] = value; }

  // Adds a node; bool, integer, float, string and list attributes become ONNX's.
  void Node(const char* type, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const AttrMap& attrs = {});
  // The same with one output of a new name.
  std::string Temp(const char* type, const std::vector<std::string>& inputs,
                   const AttrMap& attrs = {});

  // Initializers; equal ones are written once.
  std::string Ints(const std::vector<int64_t>& values);
  std::string Float(double value);
  std::string Floats(const std::string& name, const std::vector<int64_t>& dims,
                     const std::vector<float>& values);

 private:
  StatusOr<const Tensor*> Weight(const std::string& var) const;
  // A new initializer for a form of `var`; its name.
  std::string Add(const std::string& var, const char* form, const Tensor& tensor,
                  const std::vector<int64_t>& dims, std::string bytes);
  std::string NewName(const std::string& base);

  const Program& program_;
  const TensorMap& tensors_;
  onnx::GraphProto& graph_;
  std::map<std::string, std::string> values_;  // of variables; of forms of parameters, "w/T"
  std::set<std::string> constants_, weights_;  // names of initializers
  int temps_ = 0;
};

// ONNX's number of an element type. UNIMPLEMENTED for one that it lacks.
int OnnxType(DType dtype);

}  // namespace tandem
