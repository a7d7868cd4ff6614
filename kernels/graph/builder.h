// Builds a program from layers in C++. The builder stores the first error, and Finish() returns the
// error. Therefore the code of a model is a list of layers without error checks.
#pragma once

#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::graph {

enum class Act : uint8_t { kNone, kRelu };

struct ConvArgs {
  int64_t channels = 0;  // number of output channels
  int64_t kernel = 3;    // height and width of the filter in elements
  int64_t stride = 1;
  int64_t padding = 0;
  bool bias = true;
  Act act = Act::kNone;
  int64_t groups = 1;
};

struct PoolArgs {
  bool max = true;  // true: the maximum of each window; false: the average
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  bool global = false;  // true: one window covers the image; kernel, stride, padding are ignored
};

struct EmbeddingArgs {
  int64_t rows = 0;  // rows of the table; ids must be in [0, rows)
  int64_t dim = 0;
  int64_t padding_idx = -1;  // the id whose row is zeros and is not trained; -1: no such id
  bool sparse = false;       // true: the gradient of the table is stored as sparse rows
  bool distributed = false;  // true: in pserver mode the table is stored only on servers
  std::string rules;  // for `distributed`: the rules of the table, see common/tables/table_rules.h
  std::string click;  // for accessor=ctr: value of the attribute `click` of lookup_table
  Init init = {Init::kNormal, 0.0f, 0.02f};
};

// Appends operators to a program. Images are [batch, channels, height, width]. A layer method
// returns the name of its output variable. After an error, all calls do nothing and return "".
class ProgramBuilder {
 public:
  // `batch`: the batch dimension for shape inference. BindBatch can change it later.
  ProgramBuilder(std::string name, int64_t batch);

  // Sets op_device (kernels/graph/op_device.h) of the operators added after this call. "": these
  // operators have no op_device.
  void DeviceGuard(const std::string& device) { device_ = device; }

  std::string Data(const std::string& name, DType dtype, std::vector<int64_t> sample_dims);
  std::string Param(const std::string& name, const Shape& shape, Init init);
  // Adds a fully connected layer. X [batch, ...] is flattened to [batch, k]. Parameters: weight
  // `<layer>.w` [k, units] and bias `<layer>.b`.
  std::string Fc(const std::string& x, int64_t units, Act act = Act::kNone);
  std::string Conv2d(const std::string& x, const ConvArgs& args);
  // Adds a batch normalisation. Parameters: `<layer>.w` and `<layer>.b`. Running statistics:
  // `<layer>.mean` and `<layer>.variance`.
  std::string BatchNorm(const std::string& x, Act act = Act::kNone);
  std::string Pool2d(const std::string& x, const PoolArgs& args);
  // Looks up the rows of table `<layer>.w` [args.rows, args.dim] whose numbers are in `ids` (i64).
  // The result has the dimensions of `ids`, then `dim`.
  std::string Embedding(const std::string& ids, const EmbeddingArgs& args);
  // Normalises over the last dimension of `x`. Parameters: `<layer>.w` and `<layer>.b`.
  std::string LayerNorm(const std::string& x);
  // Drops elements of `x` with `probability`. Returns `x` if the probability is 0. The first
  // dimension of `x` must be the batch, and the samples must be contiguous in memory.
  std::string Dropout(const std::string& x, double probability);
  std::string Transpose(const std::string& x, std::vector<int64_t> order);
  // Splits x into `num` equal parts along dimension `axis`. All names are "" after an error.
  std::vector<std::string> Split(const std::string& x, int64_t axis, int64_t num);
  // Splits x along dimension `axis` into parts of sizes `sections`.
  std::vector<std::string> Split(const std::string& x, int64_t axis, std::vector<int64_t> sections);
  std::string Relu(const std::string& x);
  std::string Add(const std::string& x, const std::string& y);
  // Gives x the shape `dims`. A dimension of 0 is copied from x. A dimension of -1 is computed from
  // the other dimensions.
  std::string Reshape(const std::string& x, std::vector<int64_t> dims);
  // Returns `factor` times the softmax cross entropy, averaged over the batch. `label` is i64
  // [batch, 1]; rows with label -100 add 0. Sets program.loss. All losses multiply the loss of each
  // sample by `weight` (f32 [batch, 1]); "": no weights.
  std::string SoftmaxLoss(const std::string& logits, const std::string& label, double factor = 1,
                          const std::string& weight = "");
  // Sets program.loss to the mean cross entropy of sigmoid(logits) and `label` (i64, the shape of
  // logits). Returns the probabilities.
  std::string SigmoidLoss(const std::string& logits, const std::string& label,
                          const std::string& weight = "");
  // Returns the mean of the loss `type` (square_error_cost, huber_loss, l1_loss) of the predictions
  // with `target` (f32, the same shape). Sets program.loss.
  std::string RegressionLoss(const std::string& type, const std::string& prediction,
                             const std::string& target, const std::string& weight = "");
  // Returns the area under the ROC curve over all batches so far, and adds this area to
  // program.metrics. `probability` is [batch, 1], `label` is i64 [batch, 1].
  std::string Auc(const std::string& probability, const std::string& label);
  // Reduces sequences [batch, steps, dim] to rows [batch, dim]. `type`: the kind of pooling, as in
  // the operator sequence_pool.
  std::string SequencePool(const std::string& x, const std::string& type);
  // Returns the share of rows whose largest logit is at the label, and adds this share to
  // program.metrics.
  std::string Accuracy(const std::string& logits, const std::string& label);
  // Adds an operator of any type with one output. The output's name begins with the type.
  std::string Layer(const std::string& type, std::vector<std::vector<std::string>> inputs,
                    ops::AttrMap attrs);

  StatusOr<Program> Finish();

 private:
  bool Keep(const Status& status);  // stores the first error; returns whether `status` is OK
  bool Append(ops::Op op);          // returns whether the operator was appended
  // Sets program.loss to the mean of `rows` [batch, k], weighted by `weight` unless it is "".
  void SetLoss(const std::string& rows, const std::string& weight);
  const TensorDesc* Desc(const std::string& var);
  std::string State(const std::string& name, const TensorDesc& desc, Init init);
  std::string NextName(const std::string& layer);
  // Adds an operator with the output `<layer>.out`.
  std::string Named(const std::string& layer, const std::string& type,
                    std::vector<std::vector<std::string>> inputs, ops::AttrMap attrs);
  std::vector<std::string> SplitInto(const std::string& x, size_t count, ops::AttrMap attrs);

  Program program_;
  Status status_;
  int64_t batch_;
  std::string device_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace tandem::graph
