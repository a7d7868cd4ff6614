// Applies the optimizer to rows of a table. It runs the optimizer operator with sparse gradients
// (update_program.h) over copies of some rows at a time. The result is bit-identical to an update
// of the whole matrix.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/state/shard_config.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_store.h"
#include "pserver/tables/update_program.h"

namespace tandem::pserver {

// A row has its weights, then the slots with an element for each weight. A brief row
// (row_accessor.h) has only the first weights and is updated as if the others were 0. A slot of one
// number belongs to the table and advances with every step.
class RowUpdater {
 public:
  // Allows `threads` concurrent calls of Update. `backend` and `device` must outlive this.
  static StatusOr<RowUpdater> Make(const TableSpec& spec, const OptimizerSpec& optimizer,
                                   const Backend& backend, Device& device, int threads);

  const std::vector<std::string>& slots() const { return slot_names_; }  // slots of rows
  const std::vector<float>& slot_start() const { return slot_start_; }
  std::vector<std::pair<std::string, float>>& scalars() { return scalars_; }  // slots of one number
  const std::vector<std::pair<std::string, float>>& scalars() const { return scalars_; }
  // Floats of a row with `columns` weights.
  int64_t width(int64_t columns) const {
    return columns * static_cast<int64_t>(1 + row_slots_.size());
  }
  size_t rows_max() const { return static_cast<size_t>(rows_max_); }  // maximum rows of one Update

  // Updates at most rows_max() rows of a step, at indices `at`. Each row has `stride` values in
  // `gradients`; the last dim values are its gradient. Calls with different `part` < threads may
  // run concurrently. Every step needs a call with part 0, even without rows.
  Status Update(int part, RowStore& store, std::span<const uint32_t> at, const float* gradients,
                int64_t stride, float learning_rate);
  // Updates every row of `store` for a step in one call. The rows at indices `at` have gradients;
  // the others have none.
  Status UpdateAll(RowStore& store, std::span<const uint32_t> at, const float* gradients,
                   float learning_rate);
  // Ends the step.
  void Finish() { scalars_ = next_scalars_; }

 private:
  // Rows that are copied into the program of a part.
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
  int64_t dim_, brief_;  // weights of a full row, of a brief row
  int64_t rows_max_;
  std::vector<std::unique_ptr<UpdateProgram>> programs_;  // by part
  std::vector<size_t> row_slots_, scalar_slots_;          // indices into a program's slots
  std::vector<std::string> slot_names_;                   // names of row_slots_
  std::vector<float> slot_start_;
  std::vector<std::pair<std::string, float>> scalars_;       // current values
  std::vector<std::pair<std::string, float>> next_scalars_;  // values after the step in progress
};

}  // namespace tandem::pserver
