#include "pserver/shard/push_replay.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/base/visitor.h"

namespace tandem::pserver {
namespace {

// Returns the trainer that made the change; null: the change was not made by a trainer.
const CallerId* CallerOf(const LogRecord& record) {
  return std::visit(Visitor{[](const PushRecord& r) { return &r.head.caller; },
                            [](const OrderRecord& r) { return &r.header.caller; },
                            [](const AdoptRecord& r) { return &r.caller; },
                            [](const CompleteRecord& r) { return &r.caller; },
                            [](const MoveRecord&) -> const CallerId* { return nullptr; },
                            [](const SnapshotRecord&) -> const CallerId* { return nullptr; }},
                    record);
}

}  // namespace

uint64_t PushReplay::last_number() const {
  return queue_.empty() ? state_.journal.number() : queue_.last_number();
}

uint64_t PushReplay::incarnation(int trainer) const {
  const auto found = incarnations_.find(trainer);
  return found == incarnations_.end() ? 0 : found->second;
}

Status PushReplay::Add(LogEntry entry, bool lost) {
  if (entry.number != last_number() + 1) {
    return DataLoss("entry %d of the write-ahead log is out of order", entry.number);
  }
  if (const CallerId* const caller = CallerOf(entry.record); caller != nullptr) {
    uint64_t& newest = incarnations_[caller->trainer];
    newest = std::max(newest, caller->incarnation);
  }
  queue_.Add(std::move(entry), lost);
  return OkStatus();
}

bool PushReplay::Misses(const PushHead& head) const {
  return queue_.missing() != 0 && head.caller.job == state_.config.job && queue_.Misses(head);
}

StatusOr<uint64_t> PushReplay::Supply(const PushHead& head, std::vector<Buffer> values) {
  TD_REQUIRE(Misses(head));
  return queue_.Take(head, std::move(values));
}

Status PushReplay::CheckComplete() const {
  if (queue_.empty()) return OkStatus();
  return Unavailable(
      "this server was restarted from a checkpoint and waits for the later pushes from %s",
      queue_.Senders());
}

Status PushReplay::CheckComplete(const CallerId& caller) const {
  if (const size_t count = queue_.MissingOf(caller.trainer, caller.incarnation); count != 0) {
    return DataLoss(
        "this server was restarted from a checkpoint and waits for %d later pushes, which trainer "
        "%d must retransmit",
        count, caller.trainer);
  }
  return CheckComplete();
}

void PushReplay::OnLostPush(const PushHead& head) {
  TD_REQUIRE(state_.sync());
  lost_steps_.try_emplace(head.caller.trainer, head.step);
}

StatusOr<bool> PushReplay::Finish() {
  if (state_.broken.ok() && !queue_.empty()) has_waited_ = true;
  if (queue_.empty() && !lost_steps_.empty() && !ForgetLostSteps()) return Failure(OkStatus());
  if (!has_waited_ || !queue_.empty()) return false;
  has_waited_ = false;
  return true;
}

// Drops the gathered gradients of the lost trainers' incomplete step. The server never acknowledged
// this step, so the replacement of a lost trainer pushes its gradients for the step again.
bool PushReplay::ForgetLostSteps() {
  bool waits = false;  // true: the step waits for a trainer whose pushes are not lost
  for (int r = 0; r < state_.trainers.size(); ++r) {
    waits |= !state_.trainers[r].completed && !state_.params->step().GaveAll(r) &&
             !lost_steps_.contains(r);
  }
  for (const auto& [trainer, step] : lost_steps_) waits &= step == state_.version;
  if (!waits) return false;
  for (const auto& [trainer, step] : lost_steps_) state_.params->step().Drop(trainer);
  lost_steps_.clear();
  return true;
}

Status PushReplay::Failure(const Status& why) const {
  if (lost_steps_.empty()) return why;
  return Aborted(
      "trainer %d was restarted together with this server, so the pushes of this trainer for step "
      "%d are lost [TD7012]; hint: resume from the checkpoint of the trainers, with empty server "
      "directories",
      lost_steps_.begin()->first, DisplayStep(lost_steps_.begin()->second));
}

void PushReplay::Reset() {
  queue_ = {};
  lost_steps_.clear();
}

}  // namespace tandem::pserver
