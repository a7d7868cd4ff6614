#include "pserver/shard/log/journal.h"

#include <memory>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

Status Journal::Ready(uint64_t bytes) const {
  if (log_ == nullptr) return OkStatus();
  return log_->Ready(replayable_ ? 0 : bytes);
}

void Journal::Note(LogEntry::Kind kind, const PushHead& head) {
  if (!notes()) return;
  log_->Append({.number = ++number_, .kind = kind, .head = head, .values = {}});
}

void Journal::NotePush(const PushHead& head, const PushTicket& ticket) {
  if (!notes()) return;
  LogEntry entry{.number = ++number_, .kind = LogEntry::Kind::kPush, .head = {}, .values = {}};
  // Logs the values of a skipped push, which differ from the values that its sender keeps.
  if (!replayable_ || ticket.skipped) {
    entry.head = head;
    for (const PushBytes& values : ticket.buffers) entry.values.push_back(values.buffer());
  } else {
    entry.kind = LogEntry::Kind::kOrder;
    entry.head = {head, {}};
    for (const PushHead::Slice& s : head.slices) entry.sender_bytes += s.desc.bytes();
  }
  log_->Append(std::move(entry));
}

void Journal::NoteMove(LogEntry::Kind kind, MoveRecord record) {
  if (!notes()) return;
  LogEntry entry{.number = ++number_, .kind = kind, .head = {}, .values = {}};
  entry.move = std::make_shared<MoveRecord>(std::move(record));
  log_->Append(std::move(entry));
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
