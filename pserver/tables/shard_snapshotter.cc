#include "pserver/tables/shard_snapshotter.h"

#include <utility>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {

Status ShardSnapshotter::Copy(ShardSnapshot& snapshot) {
  TD_REQUIRE(snapshot.tables.size() == tables_.size() && snapshot.slices.empty());
  for (size_t i = 0; i < tables_.size(); ++i) {
    TD_ASSIGN_OR_RETURN(
        TableSnapshot table,
        tables_.table(static_cast<int>(i)).Snapshot(snapshot.version, snapshot.base));
    table.previous = std::move(snapshot.tables[i].previous);
    snapshot.tables[i] = std::move(table);
  }
  for (size_t i = 0; i < slices_.size(); ++i) {
    TD_ASSIGN_OR_RETURN(SliceSnapshot slice, slices_.Snapshot(static_cast<int>(i)));
    snapshot.slices.push_back(std::move(slice));
  }
  return OkStatus();
}

void ShardSnapshotter::CopyPreviousRows(ShardSnapshot& snapshot) const {
  TD_REQUIRE(snapshot.tables.size() == tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) {
    const SparseTable& table = tables_.table(static_cast<int>(i));
    snapshot.tables[i].previous = table.previous().Rows(table.spec().variable);
  }
}

void ShardSnapshotter::Begin(const ShardSnapshot& snapshot) {
  slices_.BeginSnapshot();
  for (size_t i = 0; i < tables_.size(); ++i) {
    tables_.table(static_cast<int>(i)).BeginSnapshot(snapshot.version, snapshot.base);
  }
}

StatusOr<bool> ShardSnapshotter::CopyChunk(const ShardSnapshot& snapshot, size_t bytes,
                                           Position& position) {
  const std::vector<SliceSpec>& slices = snapshot.config.slices;
  size_t copied = 0;
  for (; position.slice < slices.size() && copied < bytes; ++position.slice) {
    TD_RETURN_IF_ERROR(slices_.snapshot().CopySlice(static_cast<int>(position.slice)));
    copied += static_cast<size_t>(slices[position.slice].numel) * sizeof(float);
  }
  for (; position.table < tables_.size() && copied < bytes; ++position.table, position.bucket = 0) {
    CowTableSnapshot& table = tables_.table(static_cast<int>(position.table)).snapshot();
    for (; position.bucket < kRowBuckets && copied < bytes; ++position.bucket) {
      copied += table.CopyBucket(position.bucket);
    }
    if (position.bucket < kRowBuckets) break;
  }
  return position.slice == slices.size() && position.table == tables_.size();
}

Status ShardSnapshotter::Finish(ShardSnapshot& snapshot) {
  StatusOr<std::vector<SliceSnapshot>> slices = slices_.snapshot().Finish();
  Status status = slices.status();
  if (slices.ok()) snapshot.slices = *std::move(slices);
  for (size_t i = 0; i < tables_.size(); ++i) {
    StatusOr<TableSnapshot> table = tables_.table(static_cast<int>(i)).snapshot().Finish();
    status.Update(table.status());
    if (!table.ok()) continue;
    table->previous = std::move(snapshot.tables[i].previous);
    snapshot.tables[i] = *std::move(table);
  }
  return status;
}

void ShardSnapshotter::Abandon() {
  slices_.snapshot().Abandon();
  for (size_t i = 0; i < tables_.size(); ++i)
    tables_.table(static_cast<int>(i)).snapshot().Abandon();
}

}  // namespace tandem::pserver
