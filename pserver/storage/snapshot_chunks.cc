#include "pserver/storage/snapshot_chunks.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

using Kind = SnapshotChunk::Kind;

Status SnapshotAssembler::Begin(ShardSnapshot head) {
  snapshot_ = std::move(head);
  return OkStatus();
}

Status SnapshotAssembler::Take(SnapshotChunk chunk) {
  switch (chunk.kind) {
    case Kind::kSlice:
      snapshot_.slices.push_back(std::move(chunk.slice));
      break;
    case Kind::kRows:
      TD_REQUIRE(chunk.index < snapshot_.tables.size());
      snapshot_.tables[chunk.index].buckets.emplace_back(chunk.bucket, std::move(chunk.rows));
      break;
    case Kind::kPreviousSlice:
      TD_REQUIRE(chunk.index < snapshot_.slices.size());
      snapshot_.slices[chunk.index].previous = std::move(chunk.slice.previous);
      break;
    case Kind::kPreviousRows:
      TD_REQUIRE(chunk.index < snapshot_.tables.size());
      snapshot_.tables[chunk.index].previous = std::move(chunk.rows);
      break;
  }
  return OkStatus();
}

Status NumberedSink::Begin(ShardSnapshot head) {
  TD_REQUIRE(head.log_number <= log_number_);
  head.log_number = log_number_;
  return sink_.Begin(std::move(head));
}

Status NumberedSink::Take(SnapshotChunk chunk) { return sink_.Take(std::move(chunk)); }

Status SendChunks(ShardSnapshot snapshot, SnapshotSink& sink) {
  const std::vector<SliceSnapshot> slices = std::exchange(snapshot.slices, {});
  std::vector<TableSnapshot> tables = std::exchange(snapshot.tables, {});
  for (const TableSnapshot& table : tables) {
    snapshot.tables.push_back({{}, table.scalars, {}, table.partial, table.checks});
  }
  TD_REQUIRE(!snapshot.base.has_value());  // a delta must be merged with its base first
  const bool has_previous = snapshot.has_previous;
  TD_RETURN_IF_ERROR(sink.Begin(std::move(snapshot)));
  for (size_t i = 0; i < slices.size(); ++i) {
    TD_RETURN_IF_ERROR(sink.Take({Kind::kSlice, i, 0, slices[i]}));
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    for (auto& [bucket, rows] : tables[i].buckets) {
      TD_RETURN_IF_ERROR(sink.Take({Kind::kRows, i, bucket, {}, std::move(rows)}));
    }
  }
  if (!has_previous) return OkStatus();
  for (size_t i = 0; i < slices.size(); ++i) {
    TD_RETURN_IF_ERROR(sink.Take({Kind::kPreviousSlice, i, 0, {nullptr, {}, slices[i].previous}}));
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    TD_RETURN_IF_ERROR(sink.Take({Kind::kPreviousRows, i, 0, {}, std::move(tables[i].previous)}));
  }
  return OkStatus();
}

}  // namespace tandem::pserver
