// Selects convolution algorithms by measurement. Every algorithm that supports a problem runs a few
// times, and the fastest is selected. A file stores the measurements, so that the next start
// measures nothing and makes the same choices, which give the same bits.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// One algorithm of one problem.
struct ConvMeasurement {
  std::string name;  // name of the implementation, a library's or our own; without spaces
  double us = 0;     // time of a run, including reorders
  size_t scratch_bytes = 0;
};

// Use from one thread only.
class ConvSearch {
 public:
  // `path`: the file; empty: measurements are not stored.
  explicit ConvSearch(std::string path) : path_(std::move(path)) {}

  // Reads the file if it exists. Entries of other machines are kept but not used. DATA_LOSS, naming
  // the line: the file is damaged; the search then starts empty.
  Status Load();
  // Writes the file if anything was measured since Load. Entries that other processes wrote
  // meanwhile are kept; they win for the same problem. PATH.lock serialises writers and is not
  // deleted. PERMISSION_DENIED, naming the file: it cannot be written.
  Status Save();

  using Measure = std::function<StatusOr<std::vector<ConvMeasurement>>()>;
  // Returns the name of the fastest algorithm for `problem` on `machine` that needs at most
  // `scratch_max` bytes. `machine` is the processor or device and the version of the library. Calls
  // `measure` if the problem is not known for the machine. UNIMPLEMENTED: there is no such
  // algorithm.
  StatusOr<std::string> Fastest(const std::string& machine, const std::string& problem,
                                size_t scratch_max, const Measure& measure);

  int64_t measured() const { return measured_; }  // number of problems measured by this object
  int64_t found() const { return found_; }        // number of calls for a known problem
  const std::string& path() const { return path_; }

 private:
  // Key: machine and problem.
  using Table = std::map<std::string, std::vector<ConvMeasurement>>;
  static Status Read(const std::string& path, Table* table);

  const std::string path_;
  Table table_;
  bool dirty_ = false;
  int64_t measured_ = 0, found_ = 0;
};

// Returns the time in microseconds of the fastest of several calls of `run`, which must return when
// all work is done. Stops after the first call if it took more than twice `best_us`.
StatusOr<double> MeasureRuns(const std::function<Status()>& run, double best_us);

// Returns the key of a problem: operator, types, shapes and attributes of `view`.
std::string ConvProblem(const OpView& view);

// ---- On the CPU ---------------------------------------------------------------------------------

// Returns the key of a machine: this processor, oneDNN's version and `threads` per kernel.
std::string CpuMachine(int threads);

// Runs MeasureRuns for `kernel`, prepared for `view`, on newly allocated memory.
StatusOr<double> MeasureKernel(const Kernel& kernel, const OpView& view, double best_us);

// Returns `own`, a kernel of an operator on images. UNIMPLEMENTED: it needs more scratch memory
// than allowed, or a search finds that `other` is faster.
StatusOr<Kernel> UnlessSlower(const OpView& view, const PrepareContext& ctx, PrepareFn own,
                              PrepareFn other);

}  // namespace tandem
