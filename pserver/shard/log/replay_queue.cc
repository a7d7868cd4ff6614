#include "pserver/shard/log/replay_queue.h"

#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/step_number.h"

namespace tandem::pserver {

void ReplayQueue::Add(LogEntry entry, bool lost) {
  TD_REQUIRE(changes_.empty() || entry.number == last_number() + 1);
  const auto* const order = std::get_if<OrderRecord>(&entry.record);
  if (order != nullptr && !lost) ids_[IdOf(order->header)] = entry.number;
  changes_.push_back({std::move(entry), lost});
}

ReplayQueue::Change& ReplayQueue::At(uint64_t number) {
  const uint64_t index = number - changes_.front().entry.number;
  TD_REQUIRE(index < changes_.size());
  return changes_[index];
}

bool ReplayQueue::Misses(const PushHead& head) const { return ids_.contains(IdOf(head)); }

StatusOr<uint64_t> ReplayQueue::Take(const PushHead& head, std::vector<Buffer> values) {
  const auto id = ids_.find(IdOf(head));
  TD_REQUIRE(id != ids_.end());
  LogEntry& entry = At(id->second).entry;
  const PushHeader& logged = std::get<OrderRecord>(entry.record).header;
  if (logged.step != head.step || logged.learning_rate != head.learning_rate) {
    return InvalidArgument(
        "trainer %d retransmits push %d for step %d, but the push was for step %d",
        head.caller.trainer, head.sequence, DisplayStep(head.step), DisplayStep(logged.step));
  }
  entry.record = PushRecord{head, std::move(values)};
  ids_.erase(id);
  return entry.number;
}

void ReplayQueue::Lose(int trainer, uint64_t before_incarnation) {
  const auto first = ids_.lower_bound({trainer, 0, 0});
  const auto end = ids_.lower_bound({trainer, before_incarnation, 0});
  for (auto it = first; it != end; ++it) At(it->second).lost = true;
  ids_.erase(first, end);
}

std::optional<ReplayQueue::Change> ReplayQueue::Next() {
  if (changes_.empty()) return {};
  const Change& next = changes_.front();
  if (std::holds_alternative<OrderRecord>(next.entry.record) && !next.lost) return {};
  Change change = std::move(changes_.front());
  changes_.pop_front();
  return change;
}

size_t ReplayQueue::MissingOf(int trainer, uint64_t incarnation) const {
  return static_cast<size_t>(std::distance(ids_.lower_bound({trainer, incarnation, 0}),
                                           ids_.upper_bound({trainer, incarnation, UINT64_MAX})));
}

std::string ReplayQueue::Senders() const {
  std::map<int, size_t> counts;  // by trainer: number of its pushes without values
  for (const auto& [id, number] : ids_) ++counts[std::get<0>(id)];
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppendFormat(out, "trainer %d (%d)", count.first, count.second);
  });
}

}  // namespace tandem::pserver
