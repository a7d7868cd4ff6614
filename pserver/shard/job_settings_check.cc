#include "pserver/shard/job_settings_check.h"

#include <algorithm>

namespace tandem::pserver {
namespace {

constexpr size_t kSettingsMax = 4096;
constexpr size_t kTextMax = 1024;  // bytes of a name or value

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
        "%s [TD4014]; hint: give all trainers the same job file and flags; a job with other "
        "settings can begin here when the trainers of this one have ended (one that was killed, "
        "when it has been silent for %.0f s)",
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
    return InvalidArgument("%d settings; expected at most %d", settings.size(), kSettingsMax);
  }
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto& [name, value] = settings[i];
    if (name.size() > kTextMax || value.size() > kTextMax) {
      return InvalidArgument("setting %d is of more than %d characters", i, kTextMax);
    }
    if (i > 0 && settings[i - 1].first >= name) {
      return InvalidArgument(
          "setting \"%s\" does not come behind \"%s\"; expected names in "
          "ascending order",
          name, settings[i - 1].first);
    }
  }
  return OkStatus();
}

}  // namespace tandem::pserver
