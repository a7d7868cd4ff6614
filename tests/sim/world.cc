#include "tests/sim/world.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tandem::pserver {

void SimWorld::At(Time when, std::function<void()> what) {
  events_.emplace(std::make_pair(std::max(when, Now()), events_made_++), std::move(what));
}

bool SimWorld::RunUntil(const std::function<bool()>& done, Time end) {
  while (!done()) {
    if (events_.empty() || events_.begin()->first.first > end) return false;
    auto event = events_.extract(events_.begin());
    clock_.Advance(event.key().first - Now());
    event.mapped()();
  }
  return true;
}

void SimWorld::Mix(const void* bytes, size_t count) {
  const auto* const at = static_cast<const unsigned char*>(bytes);
  for (size_t i = 0; i < count; ++i) hash_ = (hash_ ^ at[i]) * 0x100000001b3;
}

void SimWorld::Note(std::string_view what, uint64_t who, uint64_t details) {
  const uint64_t numbers[] = {static_cast<uint64_t>(Now().time_since_epoch().count()), who,
                              details};
  Mix(numbers, sizeof(numbers));
  Mix(what.data(), what.size());
  if (!keep_) return;
  trace_.push_back(
      absl::StrFormat("%12.6f %-28s %d %x", Seconds(Now().time_since_epoch()), what, who, details));
}

}  // namespace tandem::pserver
