// Traces the work of a CUDA device with CUPTI: kernels, copies and fills. Each piece of work has
// the id that the host set when it submitted the work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::exec {

struct DeviceSpan {
  uint64_t id = 0;  // id from DeviceTrace::Enter; 0: the host set no id
  uint32_t stream = 0;
  std::string what;  // name of a kernel without arguments, "copy" or "fill"
  Time begin, end;   // times of this process's steady clock
};

// A trace of device work. A process has at most one trace at a time, because CUPTI's callbacks do
// not identify who requested a record. Call all methods from one thread. Work that other threads
// submit is traced without an id.
class DeviceTrace {
 public:
  // Starts a trace. `library`: see OpenCupti. UNAVAILABLE: CUPTI or one of its functions is
  // missing, or CUPTI reports an error. For example, the driver may restrict its counters to root.
  static StatusOr<std::unique_ptr<DeviceTrace>> Start(const std::string& library = "");
  virtual ~DeviceTrace() = default;  // the destructor ends the trace

  // Gives id `id` (above 0) to the work that this thread submits until Leave().
  virtual void Enter(uint64_t id) = 0;
  virtual void Leave() = 0;
  // Returns the work that the device has done since the start of the trace or the last call of
  // Take, ordered by start time. REQUIRES: the device was synchronised.
  virtual StatusOr<std::vector<DeviceSpan>> Take() = 0;
};

}  // namespace tandem::exec
