// Samples of the processor's profiler in a file (pe_profile_fname), by gperftools' libprofiler,
// which is opened when it is needed: `google-pprof PROGRAM FILE` shows them.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem {

// While one lives, 100 times in each second of processor time the stack of the thread that runs is
// noted down (CPUPROFILE_FREQUENCY). One in a process.
class CpuSamples {
 public:
  // UNAVAILABLE naming the package when the library is not there, PERMISSION_DENIED when `path`
  // cannot be written.
  static StatusOr<std::unique_ptr<CpuSamples>> Start(const std::string& path);
  // Ends the file.
  ~CpuSamples();
  CpuSamples(const CpuSamples&) = delete;
  CpuSamples& operator=(const CpuSamples&) = delete;

 private:
  using Stop = void (*)();
  explicit CpuSamples(Stop stop) : stop_(stop) {}

  const Stop stop_;
};

}  // namespace tandem
