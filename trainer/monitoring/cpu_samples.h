// Writes samples of the processor's profiler to a file (pe_profile_fname). It uses gperftools'
// libprofiler, which it loads at run time. `google-pprof PROGRAM FILE` shows the samples.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem::trainer {

// Samples while the object lives: 100 times per second of processor time (CPUPROFILE_FREQUENCY) it
// records the stack of the running thread. At most one object per process.
class CpuSamples {
 public:
  // UNAVAILABLE: the library is missing; the message names the package. PERMISSION_DENIED: `path`
  // cannot be written.
  static StatusOr<std::unique_ptr<CpuSamples>> Start(const std::string& path);
  // Completes the file.
  ~CpuSamples();
  CpuSamples(const CpuSamples&) = delete;
  CpuSamples& operator=(const CpuSamples&) = delete;

 private:
  using Stop = void (*)();
  explicit CpuSamples(Stop stop) : stop_(stop) {}

  const Stop stop_;
};

}  // namespace tandem::trainer
