// The part of Shard that makes changes again which came behind its image. Of a push whose values
// its trainer keeps (durability replayable) the log has the order alone: it waits for them, and
// what is behind it waits too, so that the state is that of before, bit by bit.
#include <iterator>
#include <utility>

#include "absl/strings/str_join.h"
#include "pserver/shard.h"

namespace tandem {

uint64_t Shard::LastNumber() const {
  return owed_.empty() ? log_number_ : owed_.back().entry.number;
}

uint64_t Shard::settled_number() const {
  MutexLock lock(mu_);
  return settled_number_;
}

size_t Shard::owed() const {
  MutexLock lock(mu_);
  return owed_ids_.size();
}

void Shard::NotePush(const PushHead& head, const PushTicket& ticket) {
  // What is skipped is not what was sent.
  if (!options_.replayable || ticket.skipped) {
    return Note(LogEntry::Kind::kPush, head, ticket.buffers);
  }
  if (options_.log == nullptr || replaying_) return;
  LogEntry entry{++log_number_, LogEntry::Kind::kOrder, {}, {}};
  entry.head = {head.caller, head.sequence, head.step, head.learning_rate, {}};
  entry.head.numbers = head.numbers;
  for (const PushHead::Slice& s : head.slices) entry.sender_bytes += s.desc.bytes();
  options_.log->Append(std::move(entry));
}

Status Shard::Replay(LogEntry entry) {
  MutexLock lock(mu_);
  if (entry.number != LastNumber() + 1) {
    return DataLoss("entry %d of the update log does not fit: it is out of order", entry.number);
  }
  const bool forgotten = options_.bug == ShardBug::kNeverAsks;
  const bool waits = entry.kind == LogEntry::Kind::kOrder && !forgotten;
  if (waits) {
    const Caller& caller = entry.head.caller;
    owed_ids_[{caller.trainer, caller.incarnation, entry.head.sequence}] = entry.number;
  }
  owed_.push_back({std::move(entry), forgotten});
  return RunOwed();
}

bool Shard::IsOwed(const PushHead& head) const {
  return !owed_ids_.empty() && head.caller.job == config_.job &&
         owed_ids_.contains({head.caller.trainer, head.caller.incarnation, head.sequence});
}

Status Shard::TakeOwed(const PushHead& head, PushTicket ticket) {
  const PushId id{head.caller.trainer, head.caller.incarnation, head.sequence};
  Owed& owed = owed_[owed_ids_.at(id) - owed_.front().entry.number];
  if (owed.entry.head.step != head.step || owed.entry.head.learning_rate != head.learning_rate) {
    return InvalidArgument("trainer %d push %d comes again, for step %d; it was for step %d",
                           head.caller.trainer, head.sequence, head.step, owed.entry.head.step);
  }
  owed.entry.kind = LogEntry::Kind::kPush;
  owed.entry.head = head;
  owed.entry.values = std::move(ticket.buffers);
  owed_ids_.erase(id);
  return RunOwed();
}

size_t Shard::OwedBy(int trainer, uint64_t incarnation) const {
  return static_cast<size_t>(
      std::distance(owed_ids_.lower_bound({trainer, incarnation, 0}),
                    owed_ids_.upper_bound({trainer, incarnation, UINT64_MAX})));
}

Status Shard::Waits() const {
  if (owed_.empty()) return OkStatus();
  std::vector<std::string> whom;
  for (int r = 0; r < config_.trainers; ++r) {
    size_t count = 0;
    const auto end = owed_ids_.upper_bound({r, UINT64_MAX, UINT64_MAX});
    for (auto it = owed_ids_.lower_bound({r, 0, 0}); it != end; ++it) ++count;
    if (count != 0) whom.push_back(absl::StrFormat("trainer %d (%d)", r, count));
  }
  return Unavailable(
      "this server was started again and waits for pushes since its checkpoint, to be sent once "
      "more by %s",
      absl::StrJoin(whom, ", "));
}

Status Shard::CheckOwed(const Caller& caller) {
  if (owed_.empty()) return OkStatus();
  Trainer& t = trainers_[caller.trainer];
  t.seen = true;
  t.last_seen = clock_.Now();
  LoseOwed(caller.trainer, caller.incarnation);
  TD_RETURN_IF_ERROR(RunOwed());
  if (owed_.empty()) return OkStatus();
  if (const size_t count = OwedBy(caller.trainer, caller.incarnation); count != 0) {
    return DataLoss(
        "this server was started again and asks trainer %d for %d pushes since its checkpoint",
        caller.trainer, count);
  }
  return Waits();
}

// What an older incarnation kept is gone with it.
void Shard::LoseOwed(int trainer, uint64_t before_incarnation) {
  const auto first = owed_ids_.lower_bound({trainer, 0, 0});
  const auto end = owed_ids_.lower_bound({trainer, before_incarnation, 0});
  for (auto it = first; it != end; ++it) {
    owed_[it->second - owed_.front().entry.number].lost = true;
  }
  owed_ids_.erase(first, end);
}

Status Shard::RunOwed() {
  while (!owed_.empty() && broken_.ok()) {
    Owed& next = owed_.front();
    if (next.entry.kind == LogEntry::Kind::kOrder && !next.lost) {
      waited_ = true;
      break;
    }
    LogEntry entry = std::move(next.entry);
    const bool lost = next.lost;
    owed_.pop_front();
    const Status made = MakeAgain(std::move(entry), lost);
    if (!made.ok()) return NotAgain(made);
  }
  counters_.owed.Set(static_cast<double>(owed_ids_.size()));
  if (owed_.empty() && !gone_.empty()) return NotAgain(OkStatus());
  // From here on nobody needs what trainers keep.
  if (waited_ && owed_.empty()) {
    waited_ = false;
    if (options_.save_soon) options_.save_soon();
  }
  return broken_;
}

Status Shard::NotAgain(const Status& why) {
  broken_ = why;
  if (!gone_.empty()) {
    broken_ = Aborted(
        "trainer %d was started again while this server was, and what it had pushed for step %d is "
        "gone with it; hint: go on from the trainers' checkpoint, with empty data folders",
        gone_.begin()->first, gone_.begin()->second);
  }
  LOG(ERROR) << broken_.message();
  return broken_;
}

Status Shard::MakeAgain(LogEntry entry, bool lost) {
  const uint64_t number = log_number_ = entry.number;
  const auto again = [&]() TD_NO_ANALYSIS -> Status {
    if (entry.move != nullptr) return ReplayMove(entry);
    TD_RETURN_IF_ERROR(CheckCaller(entry.head.caller));
    Ready ready;  // nobody waits yet
    if (entry.kind == LogEntry::Kind::kAdopt) {
      // What it had given to a step that was not complete then is forgotten: nobody needs it.
      if (entry.head.step == version_) gone_.erase(entry.head.caller.trainer);
      return OkStatus();
    }
    if (entry.kind == LogEntry::Kind::kComplete) {
      CompleteTrainer(entry.head.caller.trainer, ready);
      return OkStatus();
    }
    if (lost && config_.mode == ShardMode::kSync) {
      gone_.try_emplace(entry.head.caller.trainer, entry.head.step);
      return CheckStep(entry.head);
    }
    if (lost && options_.bug != ShardBug::kNeverAsks) {
      ++trainers_[entry.head.caller.trainer].lost_pushes;
      counters_.lost_pushes.Add(1);
    }
    TD_ASSIGN_OR_RETURN(const bool duplicate, CheckPush(entry.head));
    if (duplicate) return InvalidArgument("it was taken before");
    PushTicket ticket{.buffers = std::move(entry.values)};
    if (!entry.head.slices.empty()) {  // else it was skipped, or is lost
      TD_ASSIGN_OR_RETURN(ticket.slices, params_->FindPush(entry.head, moves_));
    }
    return TakePush(entry.head, std::move(ticket), ready);
  };
  replaying_ = true;
  const Status status = again();
  replaying_ = false;
  if (status.ok()) return status;
  return DataLoss("entry %d of the update log does not fit: %s", number, ToString(status));
}

}  // namespace tandem
