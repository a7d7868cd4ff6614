// The part of Shard that re-applies changes after its snapshot. For a push whose values its trainer
// keeps (durability=replayable), the log has only the order. The push waits for its values, and so
// do all changes after it. The resulting state is therefore bit-identical to the state before.
#include <algorithm>
#include <utility>

#include "common/base/step_number.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {

uint64_t Shard::LastNumber() const { return owed_.empty() ? log_number_ : owed_.last_number(); }

uint64_t Shard::HoldsFrom(uint64_t step) const {
  return sync() && step < version_ ? settled_number_ : LastNumber();
}

uint64_t Shard::settled_number() const {
  MutexLock lock(mu_);
  return settled_number_;
}

size_t Shard::owed() const {
  MutexLock lock(mu_);
  return owed_.missing();
}

void Shard::NotePush(const PushHead& head, const PushTicket& ticket) {
  // A skipped push differs from the sent one, so its sender cannot replay it.
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
    return DataLoss("entry %d of the write-ahead log is out of order", entry.number);
  }
  uint64_t& newest = replayed_[entry.head.caller.trainer];
  newest = std::max(newest, entry.head.caller.incarnation);
  owed_.Add(std::move(entry), /*lost=*/options_.bug == ShardBug::kNeverAsks);
  return RunOwed();
}

bool Shard::IsOwed(const PushHead& head) const {
  return owed_.missing() != 0 && head.caller.job == config_.job && owed_.Misses(head);
}

StatusOr<uint64_t> Shard::TakeOwed(const PushHead& head, PushTicket ticket) {
  TD_ASSIGN_OR_RETURN(const uint64_t number, owed_.Take(head, std::move(ticket.buffers)));
  TD_RETURN_IF_ERROR(RunOwed());
  return number;
}

Status Shard::Waits() const {
  if (owed_.empty()) return OkStatus();
  return Unavailable(
      "this server was restarted and waits for the pushes after its checkpoint from %s",
      owed_.Senders());
}

Status Shard::CheckOwed(const Caller& caller) {
  if (owed_.empty()) return OkStatus();
  trainers_.Hear(caller.trainer);
  owed_.Lose(caller.trainer, caller.incarnation);
  TD_RETURN_IF_ERROR(RunOwed());
  if (owed_.empty()) return OkStatus();
  if (const size_t count = owed_.MissingOf(caller.trainer, caller.incarnation); count != 0) {
    return DataLoss(
        "this server was restarted and waits for %d pushes after its checkpoint from trainer %d",
        count, caller.trainer);
  }
  return Waits();
}

Status Shard::RunOwed() {
  while (broken_.ok()) {
    std::optional<ReplayQueue::Change> next = owed_.Next();
    if (!next) break;
    const Status made = MakeAgain(*std::move(next));
    if (!made.ok()) return NotAgain(made);
  }
  if (broken_.ok() && !owed_.empty()) waited_ = true;
  counters_.owed.Set(static_cast<double>(owed_.missing()));
  if (owed_.empty() && !gone_.empty() && !ForgetGone()) return NotAgain(OkStatus());
  // From here on, the pushes that trainers keep are no longer needed.
  if (waited_ && owed_.empty()) {
    waited_ = false;
    if (options_.save_soon) options_.save_soon();
  }
  return broken_;
}

// An incomplete step was never acknowledged: the replacement of a lost trainer sends its part
// again.
bool Shard::ForgetGone() {
  bool waits = false;  // for another trainer
  for (int r = 0; r < trainers_.size(); ++r) {
    waits |= !trainers_[r].completed && !params_->GaveAll(r) && !gone_.contains(r);
  }
  for (const auto& [trainer, step] : gone_) waits &= step == version_;
  if (!waits) return false;
  for (const auto& [trainer, step] : gone_) params_->DropGathered(trainer);
  gone_.clear();
  return true;
}

Status Shard::NotAgain(const Status& why) {
  broken_ = why;
  if (!gone_.empty()) {
    broken_ = Aborted(
        "trainer %d was restarted together with this server, so its pushes for step %d are lost "
        "[TD7012]; hint: resume from the checkpoint of the trainers, with empty server directories",
        gone_.begin()->first, DisplayStep(gone_.begin()->second));
  }
  LOG(ERROR) << broken_.message();
  return broken_;
}

Status Shard::MakeAgain(ReplayQueue::Change change) {
  LogEntry& entry = change.entry;
  const uint64_t number = log_number_ = entry.number;
  const auto again = [&]() TD_NO_ANALYSIS -> Status {
    if (entry.move != nullptr) return ReplayMove(entry);
    TD_RETURN_IF_ERROR(CheckCaller(entry.head.caller));
    Ready ready;  // no call waits yet
    if (entry.kind == LogEntry::Kind::kAdopt) {
      // The older incarnation's part of an incomplete step is dropped, so it is not needed.
      if (entry.head.step == version_) gone_.erase(entry.head.caller.trainer);
      return OkStatus();
    }
    if (entry.kind == LogEntry::Kind::kComplete) {
      CompleteTrainer(entry.head.caller.trainer, ready);
      return OkStatus();
    }
    if (change.lost && config_.mode == ShardMode::kSync) {
      gone_.try_emplace(entry.head.caller.trainer, entry.head.step);
      return CheckStep(entry.head);
    }
    if (change.lost && options_.bug != ShardBug::kNeverAsks) {
      ++trainers_[entry.head.caller.trainer].lost_pushes;
      counters_.lost_pushes.Add(1);
    }
    TD_ASSIGN_OR_RETURN(const bool duplicate, CheckPush(entry.head));
    if (duplicate) return InvalidArgument("the retransmitted push was already accepted");
    PushTicket ticket{.buffers = std::move(entry.values)};
    if (!entry.head.slices.empty()) {  // otherwise the push was skipped or is lost
      TD_ASSIGN_OR_RETURN(ticket.slices, params_->FindPush(entry.head, moves_));
    }
    return TakePush(entry.head, std::move(ticket), ready);
  };
  replaying_ = true;
  const Status status = again();
  replaying_ = false;
  if (status.ok()) return status;
  return DataLoss("entry %d of the write-ahead log cannot be applied: %s", number,
                  ToString(status));
}

}  // namespace tandem::pserver
