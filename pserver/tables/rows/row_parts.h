// Divides work on many rows among the threads of a server.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/status.h"
#include "common/threads/fork_join.h"

namespace tandem::pserver {

// Runs the parts of one task in parallel. Not thread-safe: one task at a time.
class RowParts {
 public:
  // Does one part of the work: the range [begin, end) of the divided range.
  using Work = std::function<Status(int part, size_t begin, size_t end)>;

  // `workers` must outlive this. Null: only the calling thread works.
  explicit RowParts(ForkJoin* workers) : workers_(workers) {}

  // Divides [0, range) into parts and runs them in parallel if `rows` rows are worth it. Returns
  // the error of the first part that failed.
  Status Run(size_t rows, size_t range, const Work& work) const;
  Status Run(size_t rows, const Work& work) const { return Run(rows, rows, work); }

 private:
  ForkJoin* workers_;
};

}  // namespace tandem::pserver
