// The part of Shard that is about buckets which move in sync mode (docs/ARCHITECTURE.md, "Buckets
// that move"): between two steps, while neither server takes pushes of the second one. So rows are
// at the same version on both, and nothing of a step that was gathered has to move. A server takes
// part in one move before a step.
#include <algorithm>
#include <utility>

#include "pserver/shard.h"

namespace tandem {

bool Shard::ServesRows() const {
  return sparse_->size() != 0 && sparse_->table(0).served_buckets().any();
}

bool Shard::Idle() const {
  return sync() && table_->size() == 0 && !ServesRows() && moves_.offered.empty();
}

bool Shard::NothingGathered() const {
  for (int r = 0; r < config_.trainers; ++r) {
    if (table_->gathered(r) != 0 || sparse_->gathered(r) != 0) return false;
  }
  return true;
}

// What was offered is the target's from this step on, or not: until that is known there is no step.
bool Shard::Held() const {
  if (!sync()) return false;
  return !moves_.offered.empty() || (frozen_.order && frozen_.order->step == version_);
}

Status Shard::CheckHeld(const PushHead& head) const {
  if (head.step != version_ || !Held()) return OkStatus();
  if (options_.bug == ShardBug::kMovesWithinAStep) return OkStatus();
  return OutOfRange("trainer %d push %d: buckets are on their way before step %d; send it again",
                    head.caller.trainer, head.sequence, head.step);
}

Status Shard::CheckOfferStep(const BucketParcel& parcel) const {
  if (Idle() && version_ <= parcel.version) return OkStatus();
  const bool asked = frozen_.order && frozen_.moves.empty() && Held() && moves_.offered.empty() &&
                     (NothingGathered() || options_.bug == ShardBug::kMovesWithinAStep);
  if (asked && version_ == parcel.version && clock_.Now() < frozen_.until) return OkStatus();
  return Aborted(
      "buckets come before step %d; this server is at step %d and does not wait for them",
      parcel.version, version_);
}

void Shard::AddPrevious(const std::vector<int>& buckets, BucketParcel& parcel) const {
  parcel.has_previous = has_previous_;
  if (!has_previous_ || options_.bug == ShardBug::kPreviousStays) return;
  for (size_t i = 0; i < sparse_->size(); ++i) {
    RowValues rows = sparse_->table(static_cast<int>(i)).Previous(buckets);
    if (!rows.ids.empty()) parcel.previous.push_back(std::move(rows));
  }
}

Status Shard::SetScalars(const BucketParcel& parcel) {
  for (const BucketParcel::Scalar& s : parcel.scalars) {
    const int table = sparse_->Find(s.variable);
    if (table < 0) return NotFound("there is no table \"%s\"", s.variable);
    TD_RETURN_IF_ERROR(sparse_->table(table).SetScalar(s.slot, s.value));
  }
  return OkStatus();
}

// What makes a server part of the steps from that of the parcel on.
Status Shard::TakeStep(const BucketParcel& parcel, bool idle) {
  TD_RETURN_IF_ERROR(SetScalars(parcel));
  for (const RowValues& rows : parcel.previous) {
    const int table = sparse_->Find(rows.variable);
    if (table < 0) return NotFound("there is no table \"%s\"", rows.variable);
    if (rows.content.size() != rows.ids.size() * sparse_->table(table).dim()) {
      return InvalidArgument("%d values of %d previous rows of table %s", rows.content.size(),
                             rows.ids.size(), rows.variable);
    }
  }
  for (const RowValues& rows : parcel.previous) {
    sparse_->table(sparse_->Find(rows.variable)).SetPrevious(rows);
  }
  if (idle) {
    version_ = parcel.version;
    has_previous_ = parcel.has_previous;
    for (Trainer& t : trainers_) t.adopted = version_;  // the steps before are none of its own
  }
  return OkStatus();
}

// Moves that came to nothing get an epoch of their own, so that their targets hear of it.
void Shard::TakeBack() {
  if (moves_.begun.empty() || options_.bug == ShardBug::kNeverTakesBack) return;
  if (options_.log != nullptr && !options_.log->Ready().ok()) return;  // later
  BucketMap map;
  for (const auto& [bucket, epoch] : moves_.begun) {
    if (epoch > moves_.map.epoch(bucket)) {
      map.Learn(BucketMove{bucket, epoch + 1, options_.index});
    }
  }
  moves_.begun.clear();
  if (map.moves().empty()) return;
  moves_.map.Learn(map);
  NoteMove(LogEntry::Kind::kMoveLearned, {{}, {}, std::move(map)});
}

}  // namespace tandem
