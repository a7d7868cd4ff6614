// Selects convolution algorithms by measurement. Every algorithm that supports a problem runs a few
// times, and the fastest algorithm is selected. A file stores the measurements. A later start reads
// the file, so it measures nothing and makes the same choices. The same choices give the same bits.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "kernels/ops/core/op.h"

namespace tandem::ops {

// The measurement of one algorithm for one problem.
struct ConvMeasurement {
  std::string name;  // name of the implementation, without spaces
  double us = 0;     // time of one run in microseconds, including reorders, rounded to 0.1
  size_t scratch_bytes = 0;
};

// The measurements of algorithms, in memory and in a file. Must be used by one thread only.
class ConvSearch {
 public:
  // `path`: file with the measurements; empty: the measurements are not stored.
  explicit ConvSearch(std::string path) : path_(std::move(path)) {}

  // Reads the file if the file exists. Measurements of other machines stay in the file but are not
  // used. DATA_LOSS, naming the line: the file is damaged; the search then starts without
  // measurements.
  Status Load();
  // Writes the file if a problem was measured since Load. Measurements that other processes wrote
  // in the meantime stay in the file. If this and another process measured the same problem, the
  // file keeps the measurement of the other process. The lock file PATH.lock lets only one process
  // write at a time and is not deleted. PERMISSION_DENIED, naming the file: the file cannot be
  // written.
  Status Save();

  using Measure = std::function<StatusOr<std::vector<ConvMeasurement>>()>;
  // Returns the name of the fastest algorithm for `problem` on `machine` that needs at most
  // `scratch_max` bytes of scratch memory. `machine` names the processor or device and the version
  // of the library. Calls `measure` if no measurements of the problem on this machine are known.
  // UNIMPLEMENTED: each algorithm needs more scratch memory.
  StatusOr<std::string> Fastest(const std::string& machine, const std::string& problem,
                                size_t scratch_max, const Measure& measure);

  int64_t measured() const { return measured_; }  // number of problems measured by this object
  // Returns the number of calls of Fastest for problems that were already measured.
  int64_t found() const { return found_; }
  const std::string& path() const { return path_; }

 private:
  // Measurements by key. A key is a machine and a problem.
  using Table = std::map<std::string, std::vector<ConvMeasurement>>;
  static Status Read(const std::string& path, Table* table);

  const std::string path_;
  Table table_;
  bool dirty_ = false;
  int64_t measured_ = 0, found_ = 0;
};

// Calls `run` several times and returns the time of the fastest call in microseconds. `run` must
// return only when all its work is done. Stops after the first call if this call took more than
// twice `best_us`.
StatusOr<double> MeasureRuns(const std::function<Status()>& run, double best_us);

// Returns the key of the convolution `view`: its operator, types, shapes and attributes.
std::string ConvProblem(const OpView& view);

// ---- Search on the CPU --------------------------------------------------------------------------

// Returns the key of this machine in the file of measurements: processor, version of oneDNN, and
// number of threads per kernel.
std::string CpuMachine(int threads);

// Measures `kernel`, which was prepared for `view`, with MeasureRuns on newly allocated memory.
StatusOr<double> MeasureKernel(const Kernel& kernel, const OpView& view, double best_us);

// Returns the kernel that `own` prepares for an operator on images. UNIMPLEMENTED: this kernel
// needs more scratch memory than allowed, or a search finds that the kernel of `other` is faster.
StatusOr<Kernel> UnlessSlower(const OpView& view, const PrepareContext& ctx, PrepareFn own,
                              PrepareFn other);

}  // namespace tandem::ops
