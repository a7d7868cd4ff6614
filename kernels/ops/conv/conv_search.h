// Which algorithm a convolution takes, by measurement: every algorithm that serves a problem is run
// a few times, and the fastest one is taken. What was measured is kept in a file, so that the next
// start measures nothing and comes to the same choices, hence the same bits.
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
  std::string name;  // of a library's implementation, or of our own; without spaces
  double us = 0;     // of a run, with the reorders that it needs
  size_t scratch_bytes = 0;
};

// One thread.
class ConvSearch {
 public:
  // `path`: the file; empty: nothing is kept.
  explicit ConvSearch(std::string path) : path_(std::move(path)) {}

  // Reads the file, where there is one. What other machines have written is kept, but not used.
  // DATA_LOSS naming the line of a damaged file; the search then begins with nothing.
  Status Load();
  // Writes the file, if anything was measured since Load. What others have written meanwhile is
  // kept; for a problem that they have too, theirs (PATH.lock keeps writers apart, and stays).
  // PERMISSION_DENIED naming the file.
  Status Save();

  using Measure = std::function<StatusOr<std::vector<ConvMeasurement>>()>;
  // Name of the fastest algorithm of `problem` on `machine` (the processor or device, and the
  // library's version) that is content with `scratch_max` bytes; `measure` is called for a problem
  // that is not known there. UNIMPLEMENTED when there is none.
  StatusOr<std::string> Fastest(const std::string& machine, const std::string& problem,
                                size_t scratch_max, const Measure& measure);

  int64_t measured() const { return measured_; }  // problems, by this search
  int64_t found() const { return found_; }        // times that a problem was known
  const std::string& path() const { return path_; }

 private:
  // By machine and problem.
  using Table = std::map<std::string, std::vector<ConvMeasurement>>;
  static Status Read(const std::string& path, Table* table);

  const std::string path_;
  Table table_;
  bool dirty_ = false;
  int64_t measured_ = 0, found_ = 0;
};

// Microseconds of the fastest of a few calls of `run`, which returns when all is done. After the
// first one it is given up when that took more than twice `best_us`.
StatusOr<double> MeasureRuns(const std::function<Status()>& run, double best_us);

// What all agree on as one problem: operator, types, shapes and attributes of `view`.
std::string ConvProblem(const OpView& view);

// ---- On the CPU ---------------------------------------------------------------------------------

// This processor, oneDNN and `threads` of a kernel.
std::string CpuMachine(int threads);

// MeasureRuns of `kernel`, made for `view`, on memory of its own.
StatusOr<double> MeasureKernel(const Kernel& kernel, const OpView& view, double best_us);

// `own`, a kernel of an operator on images, unless it takes more scratch memory than is allowed or
// a search finds `other` to be faster: then UNIMPLEMENTED.
StatusOr<Kernel> UnlessSlower(const OpView& view, const PrepareContext& ctx, PrepareFn own,
                              PrepareFn other);

}  // namespace tandem
