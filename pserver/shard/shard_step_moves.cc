// The part of Shard for moves in sync mode (docs/internals/bucket-migration.md). Buckets
// move between two steps, while neither server accepts pushes of the second step. Rows then have
// the same version on both servers, and no gathered gradients have to move. A server takes part in
// at most one move before each step.
#include <algorithm>
#include <utility>

#include "common/base/step_number.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {

bool Shard::Idle() const { return sync() && !params_->ServesAny() && moves_.offered.empty(); }

bool Shard::AtItsStep() const { return frozen_.order && frozen_.order->step == version_; }

// An offered bucket belongs to the target from this step on, or not at all. Until that is known,
// the step cannot begin.
bool Shard::Held() const {
  if (!sync()) return false;
  return !moves_.offered.empty() || AtItsStep();
}

Status Shard::CheckHeld(const PushHead& head) const {
  if (head.step != version_ || !Held()) return OkStatus();
  if (options_.bug == ShardBug::kMovesWithinAStep) return OkStatus();
  return OutOfRange(
      "trainer %d push %d waits, because row buckets move before step %d; send it again",
      head.caller.trainer, head.sequence, DisplayStep(head.step));
}

Status Shard::CheckOfferStep(const BucketMigration& parcel) const {
  if (Idle() && version_ <= parcel.version) return OkStatus();
  const bool asked = frozen_.order && frozen_.moves.empty() && Held() && moves_.offered.empty() &&
                     (params_->NothingGathered() || options_.bug == ShardBug::kMovesWithinAStep);
  if (asked && version_ == parcel.version && clock_.Now() < frozen_.until) return OkStatus();
  return Aborted(
      "row buckets arrive for step %d, but this server is at step %d and does not wait for them",
      DisplayStep(parcel.version), DisplayStep(version_));
}

void Shard::AddPrevious(const std::vector<int>& buckets, BucketMigration& parcel) const {
  parcel.has_previous = has_previous_;
  if (!has_previous_ || options_.bug == ShardBug::kPreviousStays) return;
  for (size_t i = 0; i < params_->tables().size(); ++i) {
    RowValues rows = params_->tables().table(static_cast<int>(i)).Previous(buckets);
    if (!rows.ids.empty()) parcel.previous.push_back(std::move(rows));
  }
}

// Makes a server take part in the steps from that of the migration on.
Status Shard::TakeStep(const BucketMigration& parcel, bool idle) {
  TD_RETURN_IF_ERROR(params_->SetScalars(parcel.scalars));
  TD_RETURN_IF_ERROR(params_->SetPreviousRows(parcel.previous));
  if (idle) {
    version_ = parcel.version;
    has_previous_ = parcel.has_previous;
    // It took no part in earlier steps.
    for (TrainerRegistry::Trainer& t : trainers_) t.adopted = version_;
  }
  return OkStatus();
}

// Assigns new ownership epochs to cancelled moves, so that their targets learn of the cancellation.
void Shard::TakeBack() {
  if (moves_.begun.empty() || options_.bug == ShardBug::kNeverTakesBack) return;
  if (options_.log != nullptr && !options_.log->Ready(0).ok()) return;  // tried again later
  BucketMap back = moves_.TakeBack(options_.index);
  if (back.moves().empty()) return;
  NoteMove(LogEntry::Kind::kMoveLearned, {{}, {}, std::move(back)});
}

}  // namespace tandem::pserver
