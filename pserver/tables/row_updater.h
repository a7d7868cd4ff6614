// Applies the optimizer to rows of a table. RowUpdater copies some rows at a time and runs the
// optimizer operator with sparse gradients on the copies (update_program.h). The result is
// bit-identical to an update of the whole matrix.
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
// (row_accessor.h) has only the first weights. The update treats its missing weights as 0. A slot
// of one number belongs to the table and changes with every step.
class RowUpdater {
 public:
  // `threads`: number of concurrent calls of Update. `backend` and `device` must outlive this
  // object.
  static StatusOr<RowUpdater> Make(const TableSpec& spec, const graph::OptimizerSpec& optimizer,
                                   const exec::Backend& backend, Device& device, int threads);

  // Names of the slots of rows.
  const std::vector<std::string>& slots() const { return slot_names_; }
  const std::vector<float>& slot_start() const { return slot_start_; }
  // Slots of one number: name and value.
  std::vector<std::pair<std::string, float>>& scalars() { return scalars_; }
  const std::vector<std::pair<std::string, float>>& scalars() const { return scalars_; }
  // Number of floats of a row with `columns` weights.
  int64_t width(int64_t columns) const {
    return columns * static_cast<int64_t>(1 + row_slots_.size());
  }
  // Maximum number of rows in one call of Update.
  size_t rows_max() const { return static_cast<size_t>(rows_max_); }

  // Updates up to rows_max() rows of a step, at the indices `at`. `gradients` has `stride` values
  // for each row. The last dim of these values are the gradient. Calls with different values of
  // `part`, which must be less than `threads`, may run concurrently. Every step needs a call with
  // part 0, even without rows.
  Status Update(int part, RowStore& store, std::span<const uint32_t> at, const float* gradients,
                int64_t stride, float learning_rate);
  // Updates every row of `store` for a step in one call. The rows at the indices `at` have
  // gradients; the other rows have none.
  Status UpdateAll(RowStore& store, std::span<const uint32_t> at, const float* gradients,
                   float learning_rate);
  // Ends the step: sets the one-number slots to their new values.
  void Finish() { scalars_ = next_scalars_; }

 private:
  // The rows that one run of an UpdateProgram updates. Append copies the rows into the tensors of
  // the program.
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
  std::vector<std::unique_ptr<UpdateProgram>> programs_;  // by part: its program
  std::vector<size_t> row_slots_, scalar_slots_;          // indices of slots in a program's slots
  std::vector<std::string> slot_names_;                   // names of row_slots_
  std::vector<float> slot_start_;
  // One-number slots before the step in progress.
  std::vector<std::pair<std::string, float>> scalars_;
  // One-number slots after the step in progress.
  std::vector<std::pair<std::string, float>> next_scalars_;
};

}  // namespace tandem::pserver
