// What a device did and when, as CUPTI sees it: kernels, copies and fills, each with the name of
// whatever on the host started it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

struct DeviceSpan {
  uint64_t id = 0;  // of DeviceTrace::Enter; 0: none was given
  uint32_t stream = 0;
  std::string what;  // a kernel's name without arguments, "copy" or "fill"
  Time begin, end;   // by this process's steady clock
};

// One at a time in a process, since CUPTI's callbacks say nothing of who asked for them. One
// thread; what other threads start is seen too, without an id.
class DeviceTrace {
 public:
  // From now on. UNAVAILABLE with what is missing, or with CUPTI's words, e.g. when the driver
  // keeps its counters for root. `library`: OpenCupti.
  static StatusOr<std::unique_ptr<DeviceTrace>> Start(const std::string& library = "");
  virtual ~DeviceTrace() = default;  // stops

  // What this thread starts before Leave() belongs to `id`, above 0.
  virtual void Enter(uint64_t id) = 0;
  virtual void Leave() = 0;
  // What the device has done since the start or the last call, in the order in which it began.
  // REQUIRES: it was synchronised.
  virtual StatusOr<std::vector<DeviceSpan>> Take() = 0;
};

}  // namespace tandem
