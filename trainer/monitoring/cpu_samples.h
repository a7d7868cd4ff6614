// Writes samples of the CPU profiler to a file (pe_profile_fname). Uses libprofiler of gperftools,
// which is loaded at run time. `google-pprof PROGRAM FILE` shows the samples.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem::trainer {

// Samples the stacks of the running threads during the lifetime of this object. libprofiler takes
// 100 samples per second of processor time (CPUPROFILE_FREQUENCY). A process may have at most one
// such object.
class CpuSamples {
 public:
  // Starts to sample into the file `path`. UNAVAILABLE: libprofiler is missing; the message names
  // its package. PERMISSION_DENIED: `path` cannot be written.
  static StatusOr<std::unique_ptr<CpuSamples>> Start(const std::string& path);
  // Stops the sampling and completes the file.
  ~CpuSamples();
  CpuSamples(const CpuSamples&) = delete;
  CpuSamples& operator=(const CpuSamples&) = delete;

 private:
  using Stop = void (*)();
  explicit CpuSamples(Stop stop) : stop_(stop) {}

  const Stop stop_;
};

}  // namespace tandem::trainer
