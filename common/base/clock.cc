#include "common/base/clock.h"

#include "absl/strings/str_format.h"

#include "common/base/require.h"

namespace tandem {

Time FakeClock::Now() const { return Time(Duration(nanos_.load())); }

void FakeClock::Advance(Duration by) {
  TD_REQUIRE(by >= Duration::zero());
  nanos_.fetch_add(by.count());
}

std::string FormatDuration(Duration d) {
  const double s = Seconds(d);
  if (s >= 1.0) return absl::StrFormat("%.1fs", s);
  if (s >= 1e-3) return absl::StrFormat("%.0fms", s * 1e3);
  return absl::StrFormat("%.0fus", s * 1e6);
}

}  // namespace tandem
