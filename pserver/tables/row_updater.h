// The optimizer over rows of a table: its operator with sparse gradients (update_program.h), run
// over copies of some rows at a time, in the same bits as over a whole matrix.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/state/shard_types.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_store.h"
#include "pserver/tables/update_program.h"

namespace tandem {

// Rows are weights and behind them the slots that have an element for each weight; brief ones
// (row_accessor.h) have the first weights alone, and are updated as if the others were 0. Slots of
// one number are the table's, and advance with every step.
class RowUpdater {
 public:
  // For as many `threads` at once. `backend` and `device` must outlive this.
  static StatusOr<RowUpdater> Make(const TableSpec& spec, const OptimizerSpec& optimizer,
                                   const Backend& backend, Device& device, int threads);

  const std::vector<std::string>& slots() const { return slot_names_; }  // of rows
  const std::vector<float>& slot_start() const { return slot_start_; }
  std::vector<std::pair<std::string, float>>& scalars() { return scalars_; }  // slots of one number
  const std::vector<std::pair<std::string, float>>& scalars() const { return scalars_; }
  // Floats of a row with so many weights.
  int64_t width(int64_t columns) const {
    return columns * static_cast<int64_t>(1 + row_slots_.size());
  }
  size_t rows_max() const { return static_cast<size_t>(rows_max_); }  // of one Update

  // Of a step: at most rows_max() rows, at places `at`, each with `stride` values in `gradients`,
  // of which the last dim are its gradient. Calls of different parts, numbers < threads, may be
  // under way at once; every step has a call of part 0, if with no rows.
  Status Update(int part, RowStore& store, std::span<const uint32_t> at, const float* gradients,
                int64_t stride, float learning_rate);
  // Of a step, all at once: every row of `store`; those at places `at` have gradients, the others
  // none.
  Status UpdateAll(RowStore& store, std::span<const uint32_t> at, const float* gradients,
                   float learning_rate);
  // The step is over.
  void Finish() { scalars_ = next_scalars_; }

 private:
  // Rows on their way through the program of a part.
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
  int64_t dim_, brief_;  // weights of a row, of a brief one
  int64_t rows_max_;
  std::vector<std::unique_ptr<UpdateProgram>> programs_;  // by part
  std::vector<size_t> row_slots_, scalar_slots_;          // of a program's slots
  std::vector<std::string> slot_names_;                   // of row_slots_
  std::vector<float> slot_start_;
  std::vector<std::pair<std::string, float>> scalars_;       // now
  std::vector<std::pair<std::string, float>> next_scalars_;  // behind the step under way
};

}  // namespace tandem
