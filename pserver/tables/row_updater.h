// Applies the optimizer to rows of a table. RowUpdater copies a chunk of rows into the tensors of a
// program (update_program.h), runs the optimizer operator with sparse gradients, and copies the
// rows back. The result is bit-identical to an update of the whole matrix.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/state/shard_config.h"
#include "pserver/tables/rows/row_accessor.h"
#include "pserver/tables/rows/row_store.h"
#include "pserver/tables/update_program.h"

namespace tandem::pserver {

// A row has its weights, followed by the slots that have an element for each weight. A brief row
// (row_accessor.h) has only the first weights. The update treats the missing weights as 0. A slot
// of one number belongs to the table, not to a row, and changes with every step.
class RowUpdater {
 public:
  // `threads`: number of concurrent calls of Update. `backend` and `device` must outlive this
  // object.
  static StatusOr<RowUpdater> Make(const TableSpec& spec, const graph::OptimizerSpec& optimizer,
                                   const exec::Backend& backend, Device& device, int threads);

  // Names of the slots that each row has.
  const std::vector<std::string>& slots() const { return slot_names_; }
  const std::vector<float>& slot_start() const { return slot_start_; }
  // The one-number slots of the table: name and value of each.
  std::vector<std::pair<std::string, float>>& scalars() { return scalars_; }
  const std::vector<std::pair<std::string, float>>& scalars() const { return scalars_; }
  // Number of floats of a row with `columns` weights.
  int64_t width(int64_t columns) const {
    return columns * static_cast<int64_t>(1 + row_slots_.size());
  }
  // Maximum number of rows in one call of Update.
  size_t rows_max() const { return static_cast<size_t>(rows_max_); }

  // Updates up to rows_max() rows, whose indices are `at`. `gradients` has `stride` values for each
  // row; the last `dim` of these values are the gradient. REQUIRES: `part` is less than `threads`
  // of Make. Calls with different parts may run concurrently. Each step needs a call with part 0,
  // even without rows, because that call computes the new one-number slots.
  Status Update(int part, RowStore& store, std::span<const uint32_t> at, const float* gradients,
                int64_t stride, float learning_rate);
  // Makes a whole step in one call: updates every row of `store`. The rows at the indices `at` have
  // gradients; all other rows are updated without a gradient. REQUIRES: there are no brief rows.
  Status UpdateAll(RowStore& store, std::span<const uint32_t> at, const float* gradients,
                   float learning_rate);
  // Ends the step: the one-number slots get their new values.
  void Finish() { scalars_ = next_scalars_; }

 private:
  // The rows of one run of an UpdateProgram. Append copies the rows into the tensors of the
  // program.
  struct Chunk {
    std::vector<uint32_t> at;
    size_t gradients = 0;
  };
  RowUpdater(const TableSpec& spec, int64_t rows_max)
      : table_(spec.variable),
        dim_(spec.dim()),
        brief_(RowAccessor(spec.rules, dim_).columns_at_first()),
        rows_max_(rows_max) {}
  void Append(int part, Chunk& chunk, const RowStore& store, uint32_t at, const float* gradient);
  Status Run(int part, Chunk& chunk, RowStore& store, float rate);

  std::string table_;
  int64_t dim_, brief_;  // number of weights of a full row and of a brief row
  int64_t rows_max_;
  std::vector<std::unique_ptr<UpdateProgram>> programs_;  // by part
  std::vector<size_t> row_slots_, scalar_slots_;          // indices of slots in a program's slots
  std::vector<std::string> slot_names_;                   // names of row_slots_
  std::vector<float> slot_start_;
  // Values of the one-number slots before the step in progress.
  std::vector<std::pair<std::string, float>> scalars_;
  // Values of the one-number slots after the step in progress.
  std::vector<std::pair<std::string, float>> next_scalars_;
};

}  // namespace tandem::pserver
