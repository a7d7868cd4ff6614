#include "pserver/storage/image_pieces.h"

#include <utility>

#include "pserver/storage/storage.h"

namespace tandem::pserver {

using Kind = SnapshotChunk::Kind;

Status SnapshotAssembler::Begin(ShardSnapshot head) {
  image_ = std::move(head);
  return OkStatus();
}

Status SnapshotAssembler::Take(SnapshotChunk piece) {
  switch (piece.kind) {
    case Kind::kSlice:
      image_.slices.push_back(std::move(piece.slice));
      break;
    case Kind::kRows:
      image_.tables[piece.index].buckets.emplace_back(piece.bucket, std::move(piece.rows));
      break;
    case Kind::kPreviousSlice:
      image_.slices[piece.index].previous = std::move(piece.slice.previous);
      break;
    case Kind::kPreviousRows:
      image_.tables[piece.index].previous = std::move(piece.rows);
      break;
  }
  return OkStatus();
}

StatusOr<std::optional<ShardSnapshot>> Storage::Read() {
  SnapshotAssembler whole;
  TD_ASSIGN_OR_RETURN(const bool found, Read(whole));
  if (!found) return std::optional<ShardSnapshot>();
  return std::optional<ShardSnapshot>(std::move(whole.image()));
}

StatusOr<ShardSnapshot> Storage::ReadCut(uint64_t cut) {
  SnapshotAssembler whole;
  TD_RETURN_IF_ERROR(ReadCut(cut, whole));
  return std::move(whole.image());
}

Status GivePieces(ShardSnapshot image, SnapshotSink& taker) {
  const std::vector<SliceSnapshot> slices = std::exchange(image.slices, {});
  std::vector<TableSnapshot> tables = std::exchange(image.tables, {});
  for (const TableSnapshot& table : tables) {
    image.tables.push_back({{}, table.scalars, {}, table.partial});
  }
  const bool has_previous = image.has_previous;
  TD_RETURN_IF_ERROR(taker.Begin(std::move(image)));
  for (size_t i = 0; i < slices.size(); ++i) {
    TD_RETURN_IF_ERROR(taker.Take({Kind::kSlice, i, 0, slices[i]}));
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    for (auto& [bucket, rows] : tables[i].buckets) {
      TD_RETURN_IF_ERROR(taker.Take({Kind::kRows, i, bucket, {}, std::move(rows)}));
    }
  }
  if (!has_previous) return OkStatus();
  for (size_t i = 0; i < slices.size(); ++i) {
    TD_RETURN_IF_ERROR(taker.Take({Kind::kPreviousSlice, i, 0, {nullptr, {}, slices[i].previous}}));
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    TD_RETURN_IF_ERROR(taker.Take({Kind::kPreviousRows, i, 0, {}, std::move(tables[i].previous)}));
  }
  return OkStatus();
}

}  // namespace tandem::pserver
