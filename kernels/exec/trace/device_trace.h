// Traces the work of a device with CUPTI: kernels, copies and fills, each with an id that the host
// set when it started the work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

struct DeviceSpan {
  uint64_t id = 0;  // from DeviceTrace::Enter; 0: none was set
  uint32_t stream = 0;
  std::string what;  // name of a kernel without arguments, "copy" or "fill"
  Time begin, end;   // in the time of this process's steady clock
};

// At most one trace exists in a process at a time, because CUPTI's callbacks do not identify their
// requester. Use one thread. Work that other threads start is traced too, without an id.
class DeviceTrace {
 public:
  // Starts a trace. UNAVAILABLE: a part is missing, or CUPTI reports an error, e.g. if the driver
  // restricts its counters to root. `library`: see OpenCupti.
  static StatusOr<std::unique_ptr<DeviceTrace>> Start(const std::string& library = "");
  virtual ~DeviceTrace() = default;  // ends the trace

  // Assigns the work that this thread starts before Leave() to `id`, which is above 0.
  virtual void Enter(uint64_t id) = 0;
  virtual void Leave() = 0;
  // Returns the work of the device since the start or the last call, ordered by start time.
  // REQUIRES: the device was synchronised.
  virtual StatusOr<std::vector<DeviceSpan>> Take() = 0;
};

}  // namespace tandem
