#include "pserver/shard/log/journal.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

Status Journal::Ready(uint64_t bytes) const {
  if (log_ == nullptr) return OkStatus();
  return log_->Ready(replayable_ ? 0 : bytes);
}

void Journal::Note(LogRecord record) {
  if (!notes()) return;
  log_->Append({.number = ++number_, .record = std::move(record)});
}

void Journal::NotePush(const PushHead& head, const PushTicket& ticket) {
  if (!notes()) return;
  // The log stores the values of a skipped push in any mode, because these values (EmptyPush)
  // differ from the values that the trainer keeps.
  if (replayable_ && !ticket.skipped) {
    OrderRecord order{.header = head};
    for (const PushHead::Slice& s : head.slices) order.sender_bytes += s.desc.bytes();
    return Note(std::move(order));
  }
  PushRecord push{.head = head, .values = {}};
  for (const PushBytes& values : ticket.buffers) push.values.push_back(values.buffer());
  Note(std::move(push));
}

void Journal::Resume(uint64_t number) {
  TD_REQUIRE(number >= number_);
  number_ = number;
}

Journal::Replay::Replay(Journal& journal, uint64_t number) : journal_(journal) {
  TD_REQUIRE(!journal.replaying_);
  journal.number_ = number;
  journal.replaying_ = true;
}

}  // namespace tandem::pserver
