// A program during its construction from an ONNX graph. The program is built for two batch sizes at
// the same time. A dimension whose size differs between the two programs depends on the batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::onnx {

// In a list of sizes, the value kBatch + k means k times the batch size.
inline constexpr int64_t kBatch = INT64_MIN / 2, kBatchesMax = int64_t{1} << 40;
inline bool IsBatch(int64_t size) { return size > kBatch && size <= kBatch + kBatchesMax; }

// The dimension of a variable that depends on the batch size.
struct BatchAxis {
  int axis = 0;
  int64_t times = 1;   // size of the dimension divided by the batch size
  int64_t stride = 1;  // distance between two consecutive samples, in elements
};

// Builds a program operator by operator. Not thread-safe.
class BatchedProgram {
 public:
  // `program`: receives the operators; must be empty at first and outlive this object.
  explicit BatchedProgram(graph::Program& program);

  const graph::Program& forward() const { return program_; }
  const TensorDesc& Desc(const std::string& var) const;
  // Returns an unused variable name, derived from `base`.
  std::string NewVar(const std::string& base) const;

  // Declares a variable. If var.batch_leading is set, the first dimension of the variable is the
  // batch and may have any size.
  Status AddVar(tandem::graph::Var var);
  // Declares the data variable `var`. Its first dimension is the batch, and `dims` are its other
  // dimensions. `fixed_batch`: the batch size for which the model was saved; 0: the model was saved
  // for any size.
  Status AddInput(const std::string& var, DType dtype, const std::vector<int64_t>& dims,
                  int64_t fixed_batch);
  // Appends an operator. UNIMPLEMENTED: the operator accepts only one of the two batch sizes.
  Status Append(const ops::Op& op);
  // Appends an operator of type `type`. `out`: name of the first output of the operator; the names
  // of the other outputs are derived from `out`. REQUIRES: there is an operator `type`.
  Status Append(const std::string& type, std::vector<std::vector<std::string>> inputs,
                ops::AttrMap attrs, const std::string& out);
  // Appends a reshape of `var` to `sizes`. In `sizes`, kBatch + k is a size that depends on the
  // batch. UNIMPLEMENTED: after the reshape, the elements of a sample would not be contiguous.
  Status Reshape(const std::string& var, const std::vector<int64_t>& sizes, const std::string& out);

  // Returns whether the size of the first dimension of `var` is the batch size. Returns false if
  // the size is a larger multiple of the batch size.
  bool HasBatch(const std::string& var) const;
  // Returns the dimension of `var` that depends on the batch; nullopt: there is no such dimension.
  // UNIMPLEMENTED: several dimensions depend on the batch, or the size of this dimension is not a
  // multiple of the batch size.
  StatusOr<std::optional<BatchAxis>> BatchOf(const std::string& var) const;
  // Returns the sizes of `var`. A size that depends on the batch is kBatch + k.
  StatusOr<std::vector<int64_t>> Sizes(const std::string& var) const;
  // Returns the batch size for which the model was saved; 0: the model was saved for any size.
  int64_t fixed_batch() const { return fixed_batch_; }

 private:
  bool ReadsFixedBatch(const ops::Op& op) const;
  bool DependsOnBatch(const std::string& var, int axis) const;
  void CarryPieces(const ops::Op& op);

  graph::Program& program_;
  graph::Program other_;  // the same program as program_, for the other batch size
  int64_t fixed_batch_ = 0;
  // For variables with a dimension of several batches: the number of consecutive elements of this
  // dimension that belong to one sample. The number is 1 for variables that are not in the map.
  std::map<std::string, int64_t> pieces_;
};

}  // namespace tandem::onnx
