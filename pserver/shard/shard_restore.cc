#include "pserver/shard/shard_restore.h"

#include <algorithm>
#include <utility>

namespace tandem::pserver {

using Kind = SnapshotChunk::Kind;

Status ShardRestore::Begin(ShardSnapshot head) {
  TD_RETURN_IF_ERROR(CheckConfig(head.config));
  TD_RETURN_IF_ERROR(shard_.CheckOptions(head.config));
  if (head.tables.size() != head.config.tables.size()) {
    return DataLoss("the checkpoint contains %d tables, but its configuration has %d",
                    head.tables.size(), head.config.tables.size());
  }
  TD_ASSIGN_OR_RETURN(params_, shard_.MakeParams(head.config));
  if (head.moves != nullptr) {
    TD_RETURN_IF_ERROR(params_->PlaceBuckets(*head.moves, shard_.options_.index));
  }
  for (size_t i = 0; i < head.tables.size(); ++i) {
    for (const auto& [slot, value] : head.tables[i].scalars) {
      TD_RETURN_IF_ERROR(params_->tables().table(static_cast<int>(i)).SetScalar(slot, value));
    }
  }
  head_ = std::move(head);
  return OkStatus();
}

Status ShardRestore::Take(SnapshotChunk piece) {
  const int index = static_cast<int>(piece.index);
  switch (piece.kind) {
    case Kind::kSlice: {
      const SliceSpec& spec = head_.config.slices[piece.index];
      TD_RETURN_IF_ERROR(params_->slices().SetParam(index, Floats(piece.slice.param, spec.numel)));
      for (const SliceSnapshot::Slot& slot : piece.slice.slots) {
        TD_RETURN_IF_ERROR(
            params_->slices().SetSlot(index, slot.name, Floats(slot.values, slot.numel)));
      }
      break;
    }
    case Kind::kRows:
      return params_->tables().table(index).SetRows(piece.rows, head_.version);
    case Kind::kPreviousSlice:
      params_->slices().SetPrevious(index, std::move(piece.slice.previous));
      break;
    case Kind::kPreviousRows:
      params_->tables().table(index).SetPrevious(piece.rows);
      break;
  }
  return OkStatus();
}

Status ShardRestore::Finish() { return shard_.Replace(head_, std::move(params_)); }

Status Shard::Restore(const ShardSnapshot& image) {
  if (image.slices.size() != image.config.slices.size()) {
    return DataLoss("the checkpoint contains %d slices, but its configuration has %d",
                    image.slices.size(), image.config.slices.size());
  }
  ShardRestore restore(*this);
  TD_RETURN_IF_ERROR(GivePieces(image, restore));
  return restore.Finish();
}

Status Shard::Replace(const ShardSnapshot& head, std::unique_ptr<ShardParams> params) {
  Ready ready;
  {
    MutexLock lock(mu_);
    MoveState moves = head.moves == nullptr ? MoveState() : *head.moves;
    if (!moves.MovesSlices()) moves.placed = head.config.slices;
    if (moves.generation < moves_.generation || moves.map.version() < moves_.map.version()) {
      return FailedPrecondition(
          "row buckets moved between servers after the checkpoint of version %d, so it cannot be "
          "restored alone [TD7012]; hint: write checkpoints directly after a migration",
          head.version);
    }
    moves_ = std::move(moves);
    frozen_ = {};
    const Status back =
        Aborted("this server was restored from the checkpoint of version %d", head.version);
    FailAllWaiters(back, ready);
    EndHold(back, ready);
    rollbacks_ += params_ != nullptr;
    params_ = std::move(params);
    params_->SetAllGiven();
    table_metrics_.emplace(metrics_, params_->tables());
    cutting_ = false;
    ++cuts_;
    has_previous_ = head.has_previous;
    SetConfig(head.config);
    keeping_ = 0;
    version_ = head.version;
    log_number_ = std::max(LastNumber(), head.log_number);
    kept_number_ = head.log_number;
    owed_ = {};
    gone_.clear();
    restored_ = may_treat_otherwise_ = true;
    base_.Forget();
    step_rate_.reset();
    trainers_.Begin(config_.trainers);
    trainers_.Restore(head.marks);
    Settle();
  }
  Run(std::move(ready));
  return OkStatus();
}

}  // namespace tandem::pserver
