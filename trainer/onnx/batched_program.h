// A program while it is made of an ONNX graph. It is built for two batch sizes at the same time, to
// detect what depends on the batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::onnx {

// In lists of known sizes, kBatch + k stands for k times the batch size.
inline constexpr int64_t kBatch = INT64_MIN / 2, kBatchesMax = int64_t{1} << 40;
inline bool IsBatch(int64_t size) { return size > kBatch && size <= kBatch + kBatchesMax; }

// The dimension of a variable that depends on the batch.
struct BatchAxis {
  int axis = 0;
  int64_t times = 1;   // size of the dimension in batches
  int64_t stride = 1;  // elements between a sample and the next one
};

// Not thread-safe.
class BatchedProgram {
 public:
  // `program` is empty, gets the operators, and must outlive this object.
  explicit BatchedProgram(Program& program);

  const Program& forward() const { return program_; }
  const TensorDesc& Desc(const std::string& var) const;
  // Returns an unused variable name, derived from `base`.
  std::string NewVar(const std::string& base) const;

  // Declares a variable. With batch_leading, its first dimension may have any size.
  Status AddVar(tandem::Var var);
  // Declares the data variable `var`, whose first dimension is the batch. The model was saved for
  // `fixed_batch` samples; 0: any. `dims`: the other dimensions.
  Status AddInput(const std::string& var, DType dtype, const std::vector<int64_t>& dims,
                  int64_t fixed_batch);
  // Appends an operator. UNIMPLEMENTED: it fits one batch size only.
  Status Append(Op op);
  // Appends an operator. Its result gets the name `out`; the names of its other outputs are derived
  // from it. REQUIRES: there is an operator `type`.
  Status Append(const std::string& type, std::vector<std::vector<std::string>> inputs,
                AttrMap attrs, const std::string& out);
  // Appends a reshape of `var` to `sizes`, which contain kBatch where they depend on the batch.
  // UNIMPLEMENTED: the elements of a sample would not stay contiguous.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes, const std::string& out);

  // Whether the first dimension of `var` is exactly the batch, and not a multiple of it.
  bool HasBatch(const std::string& var) const;
  // Returns the batch dimension; nullopt: `var` does not depend on the batch. UNIMPLEMENTED:
  // several dimensions depend on it, or one that is not a multiple of the batch.
  StatusOr<std::optional<BatchAxis>> BatchOf(const std::string& var) const;
  // Returns the shape of `var`, with kBatch for the batch.
  StatusOr<std::vector<int64_t>> Sizes(const std::string& var) const;
  // The batch size for which the model was saved; 0: any.
  int64_t fixed_batch() const { return fixed_batch_; }

 private:
  bool ReadsFixedBatch(const Op& op) const;
  bool DependsOnBatch(const std::string& var, int axis) const;
  void CarryPieces(const Op& op);

  Program& program_;
  Program other_;  // program_ for the other batch size
  int64_t fixed_batch_ = 0;
  // For dimensions of several batches: the number of consecutive elements that belong to one
  // sample. 1 if not listed.
  std::map<std::string, int64_t> pieces_;
};

}  // namespace tandem::onnx
