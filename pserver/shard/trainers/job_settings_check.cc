#include "pserver/shard/trainers/job_settings_check.h"

#include <algorithm>

namespace tandem::pserver {
namespace {

constexpr size_t kSettingsMax = 4096;
constexpr size_t kTextMax = 1024;  // maximum bytes of a name or a value

}  // namespace

Status JobSettingsCheck::Agree(int trainer, const Agreement& settings, Duration silence_max,
                               const std::function<bool(int)>& is_at_work) {
  if (settings.empty()) return OkStatus();
  if (settings == settings_) {
    trainers_.insert(trainer);
    return OkStatus();
  }
  for (const int other : trainers_) {
    if (other == trainer || !is_at_work(other)) continue;
    return FailedPrecondition(
        "the settings of the trainers differ: %s [TD4014]; hint: give all trainers the same job "
        "file and flags, or start another job after the trainers of this job have ended (a killed "
        "trainer counts as ended after %.0f s without a call)",
        Disagreement(settings, absl::StrFormat("trainer %d", trainer), settings_,
                     absl::StrFormat("trainer %d", other)),
        Seconds(silence_max));
  }
  settings_ = settings;
  trainers_ = {trainer};
  return OkStatus();
}

Status CheckSettings(const Agreement& settings) {
  if (settings.size() > kSettingsMax) {
    return InvalidArgument("the job has %d settings, expected at most %d", settings.size(),
                           kSettingsMax);
  }
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto& [name, value] = settings[i];
    if (name.size() > kTextMax || value.size() > kTextMax) {
      return InvalidArgument("setting %d has more than %d characters", i, kTextMax);
    }
    if (i > 0 && settings[i - 1].first >= name) {
      return InvalidArgument("setting \"%s\" follows \"%s\", but names must be in ascending order",
                             name, settings[i - 1].first);
    }
  }
  return OkStatus();
}

}  // namespace tandem::pserver
