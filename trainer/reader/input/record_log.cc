#include "trainer/reader/input/record_log.h"

#include <algorithm>
#include <chrono>

#include "common/base/check.h"

namespace tandem::reader {

int64_t PlausibleTime(int64_t time_ms, const std::string& source) {
  const std::chrono::milliseconds tomorrow =
      std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::system_clock::now().time_since_epoch()) +
      std::chrono::hours(24);
  if (time_ms <= tomorrow.count()) return std::max<int64_t>(time_ms, 0);
  LOG_EVERY_T(WARNING, 10.0) << source << ": a record has the time " << time_ms
                             << " ms of Unix time, which is more than a day in the future; the "
                                "time was ignored";
  return 0;
}

}  // namespace tandem::reader
