// Layers: the short way to write a program in C++. Errors are kept and returned by Finish(), so
// that a model reads as a list of layers.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

enum class Act : uint8_t { kNone, kRelu };

struct ConvArgs {
  int64_t channels = 0;  // output channels
  int64_t kernel = 3;    // square
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;
  Act act = Act::kNone;
  int64_t groups = 1;
};

struct PoolArgs {
  bool max = true;  // else average
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  bool global = false;  // over the whole plane; kernel, stride and padding are ignored
};

struct EmbeddingArgs {
  int64_t rows = 0;  // ids are in [0, rows)
  int64_t dim = 0;
  int64_t padding_idx = -1;  // this id gives zeros and is not trained; -1: none
  bool sparse = false;       // the table's gradient is sparse rows
  bool distributed = false;  // and in pserver mode it lies on servers alone
  std::string rules;         // with it: common/tensor/table_rules.h
  std::string click;         // with accessor=ctr: lookup_table's
  Init init = {Init::kNormal, 0.0f, 0.02f};
};

// Images are [batch, channels, height, width]. Every method returns the name of its output
// variable, or "" once an error happened (then all later calls do nothing).
class ProgramBuilder {
 public:
  // `batch`: the batch dimension while shapes are inferred; BindBatch changes it later.
  ProgramBuilder(std::string name, int64_t batch);

  // Operators from here on get this op_device (kernels/graph/op_device.h); "": none.
  void DeviceGuard(const std::string& device) { device_ = device; }

  std::string Data(const std::string& name, DType dtype, std::vector<int64_t> sample_dims);
  std::string Param(const std::string& name, const Shape& shape, Init init);
  // X [batch, ...] is flattened to [batch, k]; weight `<layer>.w` [k, units], bias `<layer>.b`.
  std::string Fc(const std::string& x, int64_t units, Act act = Act::kNone);
  std::string Conv2d(const std::string& x, const ConvArgs& args);
  // Parameters `<layer>.w` and `<layer>.b`, running statistics `<layer>.mean`, `<layer>.variance`.
  std::string BatchNorm(const std::string& x, Act act = Act::kNone);
  std::string Pool2d(const std::string& x, const PoolArgs& args);
  // Rows of a table `<layer>.w` [args.rows, args.dim] for the i64 ids: [dims of ids..., dim].
  std::string Embedding(const std::string& ids, const EmbeddingArgs& args);
  // Over the last dimension; parameters `<layer>.w` and `<layer>.b`.
  std::string LayerNorm(const std::string& x);
  // With probability 0 it is left out: x. X must begin with the batch, its samples one behind the
  // other.
  std::string Dropout(const std::string& x, double probability);
  std::string Transpose(const std::string& x, std::vector<int64_t> order);
  // `num` equal parts along dimension `axis`; all "" once an error happened.
  std::vector<std::string> Split(const std::string& x, int64_t axis, int64_t num);
  // ... of these sizes.
  std::vector<std::string> Split(const std::string& x, int64_t axis, std::vector<int64_t> sections);
  std::string Relu(const std::string& x);
  std::string Add(const std::string& x, const std::string& y);
  std::string Reshape(const std::string& x, std::vector<int64_t> dims);  // 0 copies, -1 is computed
  // `factor` times the mean over the batch of softmax cross entropy; `label` is i64 [batch, 1],
  // rows labelled -100 count as 0. Sets program.loss.
  std::string SoftmaxLoss(const std::string& logits, const std::string& label, double factor = 1);
  // Mean of the cross entropy of sigmoid(logits) with `label` (i64, as logits). Sets program.loss;
  // returns the probabilities.
  std::string SigmoidLoss(const std::string& logits, const std::string& label);
  // Area under the ROC curve of all batches so far; adds it to program.metrics.
  // `probability` [batch, 1], `label` i64 [batch, 1].
  std::string Auc(const std::string& probability, const std::string& label);
  // Sequences [batch, steps, dim] as rows [batch, dim]; `type` as in sequence_pool.
  std::string SequencePool(const std::string& x, const std::string& type);
  std::string Mul(const std::string& x, const std::string& y);
  std::string Scale(const std::string& x, double scale);
  // Share of rows whose largest logit is the label; adds it to program.metrics.
  std::string Accuracy(const std::string& logits, const std::string& label);
  // Any operator by type, with one output; the output variable is named after the type.
  std::string Layer(const std::string& type, std::vector<std::vector<std::string>> inputs,
                    AttrMap attrs);

  StatusOr<Program> Finish();

 private:
  bool Keep(const Status& status);  // true when OK
  bool Append(Op op);               // likewise
  const TensorDesc* Desc(const std::string& var);
  std::string State(const std::string& name, const TensorDesc& desc, Init init);
  std::string NextName(const std::string& layer);
  // An operator with output `<layer>.out`.
  std::string Named(const std::string& layer, const std::string& type,
                    std::vector<std::vector<std::string>> inputs, AttrMap attrs);
  std::vector<std::string> SplitInto(const std::string& x, size_t count, AttrMap attrs);

  Program program_;
  Status status_;
  int64_t batch_;
  std::string device_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace tandem
