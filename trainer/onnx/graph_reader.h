// A program while it is made of an ONNX graph: which of the graph's values are variables, and which
// are numbers that are known. It is made for two sizes of the batch at once, which tell what
// depends on the batch.
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

// In lists of sizes that are known while a model is read, kOnnxBatch + k is the size of k batches.
inline constexpr int64_t kOnnxBatch = INT64_MIN / 2, kOnnxBatchesMax = int64_t{1} << 40;
inline bool IsOnnxBatch(int64_t size) {
  return size > kOnnxBatch && size <= kOnnxBatch + kOnnxBatchesMax;
}

// The dimension of a variable that depends on the batch.
struct OnnxBatchAxis {
  int axis = 0;
  int64_t times = 1;   // its size in batches
  int64_t stride = 1;  // elements from a sample to the next one
};

class OnnxGraphReader {
 public:
  // `external` and `out` must outlive this.
  OnnxGraphReader(int64_t opset, OnnxExternalData& external, Device& host, OnnxImport* out)
      : opset_(opset), external_(external), host_(host), out_(*out) {}

  int64_t opset() const { return opset_; }
  // Numbers of value `value`. `trained`: when they are used as a variable, it is a parameter.
  Status AddConstant(const std::string& value, const ::onnx::TensorProto& tensor, bool trained);
  Status AddInput(const ::onnx::ValueInfoProto& input, const std::string& var);

  // Whole numbers that were computed while the model was read.
  Status AddInts(const std::string& value, const std::vector<int64_t>& ints);
  // The same of any numbers, which are not trained.
  void AddKnown(const std::string& value, Tensor tensor);
  StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) const;
  // Declares a variable; one with batch_leading has any first dimension.
  Status AddVar(tandem::Var var);
  // Whether the first dimension of `var` is the batch, and not a multiple of it.
  bool HasBatch(const std::string& var) const;
  // nullopt: `var` does not depend on the batch. UNIMPLEMENTED when several dimensions do, or one
  // that is no multiple of the batch.
  StatusOr<std::optional<OnnxBatchAxis>> BatchOf(const std::string& var) const;
  // The shape of `var`, with kOnnxBatch.
  StatusOr<std::vector<int64_t>> Sizes(const std::string& var) const;
  // Appends a reshape of `var` to `sizes`, which have kOnnxBatch where they depend on the batch.
  // UNIMPLEMENTED where a sample would not stay in one piece.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes, const std::string& out);
  // The batch size that the model was saved for; 0: any.
  int64_t fixed_batch() const { return fixed_batch_; }

  // nullptr: it is computed, or unknown.
  const Tensor* Constant(const std::string& value) const;
  // A known float that is no parameter: one without dimensions, or of a Constant node. nullptr for
  // any other.
  const float* Scalar(const std::string& value) const;
  // Known numbers that are no parameter; nullptr for any other.
  const Tensor* Untrained(const std::string& value) const;
  // The variable that holds `value`. INVALID_ARGUMENT when nothing gave it before.
  StatusOr<std::string> Var(const std::string& value);
  // The same for what is kept, but not trained.
  StatusOr<std::string> State(const std::string& value);
  // A matrix, `transposed`: [n,k] of `value` [k,n]. Numbers are transposed now.
  StatusOr<std::string> Matrix(const std::string& value, bool transposed);
  // Declares part `index` along the first dimension of numbers that are known as those of a value,
  // which it returns.
  StatusOr<std::string> Part(const std::string& value, int64_t index);
  // A column of ones, [batch, 1], for what is repeated for each sample.
  StatusOr<std::string> Ones();
  void Bind(const std::string& value, const std::string& var) { vars_[value] = var; }
  const TensorDesc& Desc(const std::string& var) const { return out_.program.FindVar(var)->desc; }

  // A name for a variable: `base` as far as names of variables go.
  std::string NewVar(const std::string& base) const;
  // Appends an operator; the result gets the name `out`, what else it writes is named after it.
  Status Append(const std::string& type, std::vector<std::vector<std::string>> inputs,
                AttrMap attrs, const std::string& out);
  Status Append(Op op);
  const Program& program() const { return out_.program; }

 private:
  struct Known {
    Tensor tensor;
    bool trained;
    // All numbers are equal. PyTorch's exporter keeps one initializer of parameters that are equal,
    // as those of fresh normalisations are: each use of such a one is a variable.
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
  Program other_;  // out_.program for another batch
  int64_t fixed_batch_ = 0;
  std::map<std::string, Known, std::less<>> known_;
  std::map<std::string, std::string> vars_;  // of values
  std::set<std::string> turned_;             // values whose variable is transposed
  // Of dimensions of several batches: how many of their elements in a row are one sample's. 1
  // unless it is here.
  std::map<std::string, int64_t> pieces_;
  std::string ones_, first_input_;
};

// A node on its way into the program. Attributes that nobody asked for are found out in the end.
class OnnxNode {
 public:
  OnnxNode(const ::onnx::NodeProto& node, OnnxGraphReader& graph) : node_(node), graph_(graph) {}

  OnnxGraphReader& graph() const { return graph_; }
  int64_t opset() const { return graph_.opset(); }
  size_t inputs() const;
  bool has(size_t input) const;
  const std::string& value(size_t input) const;

  // The variable of an input. INVALID_ARGUMENT where the node has none.
  StatusOr<std::string> in(size_t input) const;
  // Whole numbers that the graph must know. UNIMPLEMENTED where they are computed.
  StatusOr<std::vector<int64_t>> ConstantInts(size_t input) const;
  // The same of sizes, of which some may be kOnnxBatch.
  StatusOr<std::vector<int64_t>> ConstantSizes(size_t input) const;
  // ConstantSizes as a list; nullopt for anything else.
  std::optional<std::vector<int64_t>> Known(size_t input) const;
  // The node's result is a list that is known.
  Status Know(const std::vector<int64_t>& list) const { return graph_.AddInts(out(), list); }
  // OnnxGraphReader::Scalar of an input that may be absent.
  const float* Scalar(size_t input) const;

  int64_t Int(const char* name, int64_t fallback) const;
  double Float(const char* name, double fallback) const;
  std::string Text(const char* name, const std::string& fallback) const;
  std::vector<int64_t> Ints(const char* name, std::vector<int64_t> fallback) const;
  const ::onnx::AttributeProto* Attr(const char* name) const;
  // UNIMPLEMENTED unless the attribute is absent or this.
  Status Only(const char* name, int64_t value) const;
  // Axes that are an attribute up to opset `last`, an input behind it. Made non-negative for a
  // tensor of `rank`. INVALID_ARGUMENT for one out of range.
  StatusOr<std::vector<int64_t>> Axes(int64_t last, int rank) const;
  // A dimension of a tensor of `rank`.
  StatusOr<int64_t> Axis(int64_t axis, int rank) const;

  const std::string& name() const;
  const std::string& out() const;
  size_t outputs() const;
  const std::string& out(size_t output) const;
  // The node's result is `value`.
  void Know(Tensor value) const { graph_.AddKnown(out(), std::move(value)); }
  // The node's result is `var`.
  Status Is(const std::string& var) const;
  // The node's result is `var` with other sizes.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes) const;
  StatusOr<std::string> TempReshape(const std::string& var,
                                    const std::vector<int64_t>& sizes) const;
  // The last operator of the node.
  Status Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
              AttrMap attrs = {}) const;
  // One before; its variable.
  StatusOr<std::string> Temp(const std::string& type, std::vector<std::vector<std::string>> inputs,
                             AttrMap attrs = {}) const;

  // UNIMPLEMENTED for attributes that were not asked for.
  Status AllRead() const;

 private:
  const ::onnx::NodeProto& node_;
  OnnxGraphReader& graph_;
  mutable std::set<std::string> read_;
};

}  // namespace tandem::onnx
