#include "common/base/keep_rules.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace tandem {
namespace {

constexpr int kKeptMax = 100000;
constexpr int64_t kHour = int64_t{3600} * 1000 * 1000, kDay = 24 * kHour;  // microseconds

// Adds the newest state of each of the last `count` periods to `kept`. `states`: by descending
// numbers.
void KeepByPeriod(const std::vector<KeptState>& states, int count, int64_t period,
                  std::set<uint64_t>* kept) {
  std::set<int64_t> seen;
  for (const KeptState& state : states) {
    if (state.time_us <= 0 || seen.contains(state.time_us / period)) continue;
    if (static_cast<int>(seen.size()) >= count) return;
    seen.insert(state.time_us / period);
    kept->insert(state.number);
  }
}

}  // namespace

StatusOr<KeepRules> ParseKeepRules(const std::string& text) {
  KeepRules rules;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    const std::string name = equals == part.npos ? "last" : part.substr(0, equals);
    int* const field = name == "last"     ? &rules.last
                       : name == "hourly" ? &rules.hourly
                       : name == "daily"  ? &rules.daily
                                          : nullptr;
    const std::string count = equals == part.npos ? part : part.substr(equals + 1);
    if (field == nullptr || !absl::SimpleAtoi(count, field) || *field < 0 || *field > kKeptMax ||
        rules.last < 1) {
      return InvalidArgument(
          "\"%s\": expected numbers of snapshots to keep, such as 3 or last=3,hourly=24,daily=7, "
          "each at most %d, last at least 1 [TD1004]",
          text, kKeptMax);
    }
  }
  return rules;
}

std::set<uint64_t> Kept(const KeepRules& rules, std::vector<KeptState> states) {
  std::sort(states.begin(), states.end(),
            [](const KeptState& a, const KeptState& b) { return a.number > b.number; });
  std::set<uint64_t> kept;
  for (size_t i = 0; i < states.size() && static_cast<int>(i) < rules.last; ++i) {
    kept.insert(states[i].number);
  }
  KeepByPeriod(states, rules.hourly, kHour, &kept);
  KeepByPeriod(states, rules.daily, kDay, &kept);
  return kept;
}

}  // namespace tandem
