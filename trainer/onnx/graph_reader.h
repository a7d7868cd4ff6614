// Builds a program from an ONNX graph. It records which of the graph's values are variables and
// which are known numbers. The program is built for two batch sizes at the same time, to detect
// what depends on the batch.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/onnx/external_data.h"
#include "trainer/onnx/import.h"

namespace onnx {
class AttributeProto;
class NodeProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace tandem::onnx {

// In lists of known sizes, kOnnxBatch + k stands for k times the batch size.
inline constexpr int64_t kOnnxBatch = INT64_MIN / 2, kOnnxBatchesMax = int64_t{1} << 40;
inline bool IsOnnxBatch(int64_t size) {
  return size > kOnnxBatch && size <= kOnnxBatch + kOnnxBatchesMax;
}

// The dimension of a variable that depends on the batch.
struct OnnxBatchAxis {
  int axis = 0;
  int64_t times = 1;   // size of the dimension in batches
  int64_t stride = 1;  // elements between a sample and the next one
};

class OnnxGraphReader {
 public:
  // `external` and `out` must outlive this object.
  OnnxGraphReader(int64_t opset, OnnxExternalData& external, Device& host, OnnxImport* out)
      : opset_(opset), external_(external), host_(host), out_(*out) {}

  int64_t opset() const { return opset_; }
  // Adds a known tensor as value `value`. `trained`: it becomes a parameter if it is used as a
  // variable.
  Status AddConstant(const std::string& value, const ::onnx::TensorProto& tensor, bool trained);
  Status AddInput(const ::onnx::ValueInfoProto& input, const std::string& var);

  // Adds integers that were computed while the model was read.
  Status AddInts(const std::string& value, const std::vector<int64_t>& ints);
  // Adds known numbers of any type, which are not trained.
  void AddKnown(const std::string& value, Tensor tensor);
  StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) const;
  // Declares a variable. With batch_leading, its first dimension may have any size.
  Status AddVar(tandem::Var var);
  // Whether the first dimension of `var` is exactly the batch, and not a multiple of it.
  bool HasBatch(const std::string& var) const;
  // Returns the batch dimension; nullopt: `var` does not depend on the batch. UNIMPLEMENTED:
  // several dimensions depend on it, or one that is not a multiple of the batch.
  StatusOr<std::optional<OnnxBatchAxis>> BatchOf(const std::string& var) const;
  // Returns the shape of `var`, with kOnnxBatch for the batch.
  StatusOr<std::vector<int64_t>> Sizes(const std::string& var) const;
  // Appends a reshape of `var` to `sizes`, which contain kOnnxBatch where they depend on the batch.
  // UNIMPLEMENTED: the elements of a sample would not stay contiguous.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes, const std::string& out);
  // The batch size for which the model was saved; 0: any.
  int64_t fixed_batch() const { return fixed_batch_; }

  // Returns the known numbers of `value`; nullptr: it is computed or unknown.
  const Tensor* Constant(const std::string& value) const;
  // Returns a known float that is not a parameter: one without dimensions, or one of a Constant
  // node. nullptr: any other value.
  const float* Scalar(const std::string& value) const;
  // Returns known numbers that are not a parameter; nullptr: any other value.
  const Tensor* Untrained(const std::string& value) const;
  // Returns the variable that holds `value`. INVALID_ARGUMENT: no earlier node computes it.
  StatusOr<std::string> Var(const std::string& value);
  // Like Var, for a value that is saved but not trained.
  StatusOr<std::string> State(const std::string& value);
  // Returns a matrix variable. If `transposed`, it is [n,k] for `value` [k,n]; known numbers are
  // transposed immediately.
  StatusOr<std::string> Matrix(const std::string& value, bool transposed);
  // Declares part `index` of known numbers along the first dimension as a new value, and returns
  // the value's name.
  StatusOr<std::string> Part(const std::string& value, int64_t index);
  // Returns a column of ones, [batch, 1], with which values can be repeated for each sample.
  StatusOr<std::string> Ones();
  void Bind(const std::string& value, const std::string& var) { vars_[value] = var; }
  const TensorDesc& Desc(const std::string& var) const { return out_.program.FindVar(var)->desc; }

  // Returns an unused variable name, derived from `base`.
  std::string NewVar(const std::string& base) const;
  // Appends an operator. Its result gets the name `out`; the names of its other outputs are derived
  // from it.
  Status Append(const std::string& type, std::vector<std::vector<std::string>> inputs,
                AttrMap attrs, const std::string& out);
  Status Append(Op op);
  const Program& program() const { return out_.program; }

 private:
  struct Known {
    Tensor tensor;
    bool trained;
    // All numbers are equal. PyTorch's exporter stores equal parameters, such as those of untrained
    // normalisations, as one initializer. So each use of such an initializer becomes a separate
    // variable.
    bool uniform;
  };

  bool ReadsFixedBatch(const Op& op) const;
  bool DependsOnBatch(const std::string& var, int axis) const;
  void CarryPieces(const Op& op);
  StatusOr<std::string> Declare(const std::string& value, VarKind kind, Tensor tensor);

  const int64_t opset_;
  OnnxExternalData& external_;
  Device& host_;
  OnnxImport& out_;
  Program other_;  // out_.program for the other batch size
  int64_t fixed_batch_ = 0;
  std::map<std::string, Known, std::less<>> known_;
  std::map<std::string, std::string> vars_;  // by value
  std::set<std::string> turned_;             // values whose variable is transposed
  // For dimensions of several batches: the number of consecutive elements that belong to one
  // sample. 1 if not listed.
  std::map<std::string, int64_t> pieces_;
  std::string ones_, first_input_;
};

// A node while it is read. AllRead() reports attributes that were not read.
class OnnxNode {
 public:
  OnnxNode(const ::onnx::NodeProto& node, OnnxGraphReader& graph) : node_(node), graph_(graph) {}

  OnnxGraphReader& graph() const { return graph_; }
  int64_t opset() const { return graph_.opset(); }
  size_t inputs() const;
  bool has(size_t input) const;
  const std::string& value(size_t input) const;

  // Returns the variable of an input. INVALID_ARGUMENT: the node lacks the input.
  StatusOr<std::string> in(size_t input) const;
  // Returns integers that must be known. UNIMPLEMENTED: the model computes them.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // Like ConstantInts, for sizes that may contain kOnnxBatch.
  StatusOr<std::vector<int64_t>> ConstantSizes(size_t input) const;
  // Like ConstantSizes, for a list; nullopt: the input is not a known list.
  std::optional<std::vector<int64_t>> Known(size_t input) const;
  // Sets the node's result to a known list.
  Status Know(const std::vector<int64_t>& list) const { return graph_.AddInts(out(), list); }
  // Calls OnnxGraphReader::Scalar for an input that may be absent.
  const float* Scalar(size_t input) const;

  int64_t Int(const char* name, int64_t fallback) const;
  double Float(const char* name, double fallback) const;
  std::string Text(const char* name, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* name, std::vector<int64_t> fallback) const;
  const ::onnx::AttributeProto* Attr(const char* name) const;
  // UNIMPLEMENTED: the attribute is present and has another value.
  Status Only(const char* name, int64_t value) const;
  // Returns axes that are an attribute up to opset `last` and an input in later opsets. The axes
  // are made non-negative for a tensor of rank `rank`. INVALID_ARGUMENT: an axis is out of range.
  StatusOr<std::vector<int64_t>> Axes(int64_t last, int rank) const;
  // Makes the axis of a tensor of rank `rank` non-negative.
  StatusOr<int64_t> Axis(int64_t axis, int rank) const;

  const std::string& name() const;
  const std::string& out() const;
  size_t outputs() const;
  const std::string& out(size_t output) const;
  // Sets the node's result to `value`.
  void Know(Tensor value) const { graph_.AddKnown(out(), std::move(value)); }
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

  // UNIMPLEMENTED: the node has attributes that were not read.
  Status AllRead() const;

 private:
  const ::onnx::NodeProto& node_;
  OnnxGraphReader& graph_;
  mutable std::set<std::string> read_;
};

}  // namespace tandem::onnx
