#include "pserver/shard/snapshotter.h"

#include <memory>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Approximate number of bytes that are copied before the lock is released for other calls.
constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

ShardSnapshot Snapshotter::Header(bool delta, const MoveState& moves) {
  TD_REQUIRE(state_.params != nullptr);
  // Without a log, marks all changes as settled: a restart loses the changes after the last update
  // anyway.
  if (!state_.journal.has_log()) state_.Settle();
  ShardSnapshot snapshot{.config = state_.config,
                         .version = state_.version,
                         .log_number = state_.journal.settled_number(),
                         .event_time_ms = state_.event_time_ms};
  snapshot.order = base_.NextOrder();
  if (delta) snapshot.base = base_.version();
  snapshot.has_previous = state_.has_previous && state_.journal.has_log();
  if (!moves.empty()) snapshot.moves = std::make_shared<MoveState>(moves);
  snapshot.marks = state_.trainers.marks();
  snapshot.tables.resize(state_.params->tables().size());
  if (snapshot.has_previous) state_.params->snapshotter().CopyPreviousRows(snapshot);
  return snapshot;
}

StatusOr<ShardSnapshot> Snapshotter::CopyNow(bool delta, const MoveState& moves) {
  ShardSnapshot snapshot = Header(delta, moves);
  TD_RETURN_IF_ERROR(state_.params->snapshotter().Copy(snapshot));
  return snapshot;
}

StatusOr<Snapshotter::Copy> Snapshotter::Begin(bool delta, const MoveState& moves) {
  Copy copy;
  if (copying_) {
    TD_ASSIGN_OR_RETURN(copy.snapshot, CopyNow(delta, moves));
    return copy;
  }
  copy.number = ++number_;
  copy.snapshot = Header(delta, moves);
  state_.params->snapshotter().Begin(copy.snapshot);
  copying_ = true;
  return copy;
}

StatusOr<bool> Snapshotter::CopyChunk(Copy& copy) {
  if (copy.number != number_) {
    return Aborted(
        "the checkpoint of version %d failed, because the server was restored during the "
        "checkpoint",
        copy.snapshot.version);
  }
  TD_RETURN_IF_ERROR(state_.broken);
  TD_REQUIRE(copying_);
  return state_.params->snapshotter().CopyChunk(copy.snapshot, kChunkBytes, copy.copied);
}

StatusOr<ShardSnapshot> Snapshotter::Finish(Copy& copy) {
  TD_REQUIRE(copying_ && copy.number == number_);
  copying_ = false;
  TD_RETURN_IF_ERROR(state_.params->snapshotter().Finish(copy.snapshot));
  return std::move(copy.snapshot);
}

void Snapshotter::Abandon(const Copy& copy) {
  if (copy.number != number_ || !copying_) return;
  copying_ = false;
  state_.params->snapshotter().Abandon();
}

void Snapshotter::Reset() {
  copying_ = false;
  ++number_;
}

}  // namespace tandem::pserver
