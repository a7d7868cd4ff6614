// Durations of Python, which are numbers of seconds.
#pragma once

#include <chrono>

#include "common/base/clock.h"

namespace tandem::python {

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace tandem::python
