// Divides work on many rows among the threads of a server.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/status.h"
#include "common/threads/fork_join.h"

namespace tandem::pserver {

// Runs the parts of a task in parallel. Not thread-safe: only one task may run at a time.
class RowParts {
 public:
  // Processes the elements [begin, end) of the range, which are part number `part` of the task.
  using Work = std::function<Status(int part, size_t begin, size_t end)>;

  // `workers` must outlive this object; null: only the calling thread works.
  explicit RowParts(ForkJoin* workers) : workers_(workers) {}

  // Divides [0, range) into parts and runs `work` for each part. `rows` is the number of rows of
  // the task: with few rows, there is one part; otherwise parts run in parallel. Returns the error
  // of the first part that failed.
  Status Run(size_t rows, size_t range, const Work& work) const;
  Status Run(size_t rows, const Work& work) const { return Run(rows, rows, work); }

 private:
  ForkJoin* workers_;
};

}  // namespace tandem::pserver
