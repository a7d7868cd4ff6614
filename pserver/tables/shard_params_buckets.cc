// The part of ShardParams that moves buckets between servers and copies the whole shard.
#include <algorithm>
#include <utility>

#include "pserver/tables/shard_params.h"

namespace tandem::pserver {
namespace {

constexpr size_t kParcelBytesMax = size_t{1} << 30;  // limit of a message and of a WAL record

}  // namespace

bool ShardParams::Serves(int bucket) const {
  if (bucket >= kRowBuckets) return slices_->Serves(bucket);
  return tables_->size() != 0 && tables_->table(0).served(bucket);
}

bool ShardParams::ServesRows() const {
  return tables_->size() != 0 && tables_->table(0).served_buckets().any();
}

void ShardParams::Keep(int bucket, bool served) {
  if (bucket >= kRowBuckets) return slices_->Keep(bucket, served);
  for (size_t i = 0; i < tables_->size(); ++i) {
    tables_->table(static_cast<int>(i)).Keep(bucket, served);
  }
}

Status ShardParams::Drop(int bucket) {
  if (bucket >= kRowBuckets) {
    slices_->Remove(bucket);
    SetAllGiven();
    return OkStatus();
  }
  for (size_t i = 0; i < tables_->size(); ++i) {
    TD_RETURN_IF_ERROR(tables_->table(static_cast<int>(i)).DropBucket(bucket));
  }
  return OkStatus();
}

Status ShardParams::PlaceBuckets(const MoveState& moves, int server) {
  for (const auto& [bucket, epoch] : moves.offered) {
    if (bucket >= kRowBuckets) Keep(bucket, false);
  }
  for (int b = 0; b < kRowBuckets; ++b) {
    const bool offered = moves.offered.contains(b);
    if (moves.map.epoch(b) == 0 && !offered) continue;
    const bool mine = moves.map.owner(b, -1) == server;
    if (mine || offered) {
      Keep(b, mine);
    } else {
      TD_RETURN_IF_ERROR(Drop(b));
    }
  }
  return OkStatus();
}

StatusOr<std::vector<SliceMigration>> ShardParams::SlicesOf(std::span<const BucketMove> moves,
                                                            bool previous) {
  std::vector<SliceMigration> parcels;
  size_t bytes = 0;
  for (size_t i = 0; i < slices_->size(); ++i) {
    const int slice = static_cast<int>(i);
    const SliceSpec& spec = slices_->spec(slice);
    const bool goes = std::any_of(moves.begin(), moves.end(),
                                  [&spec](const BucketMove& m) { return m.bucket == spec.bucket; });
    if (!goes) continue;
    bytes += slices_->bytes(slice);
    if (bytes > kParcelBytesMax) {
      return ResourceExhausted(
          "the slice of %s cannot move: it has %d MB with its optimizer state, but at most %d MB "
          "can move at once [TD1109]; hint: start the job with slice_var_up and more pservers, "
          "which makes smaller slices",
          spec.variable, bytes >> 20, kParcelBytesMax >> 20);
    }
    TD_ASSIGN_OR_RETURN(SliceSnapshot image, slices_->Image(slice));
    if (!previous) image.previous = nullptr;
    parcels.push_back({spec, std::move(image)});
  }
  return parcels;
}

Status ShardParams::Add(const SliceMigration& parcel) {
  TD_RETURN_IF_ERROR(slices_->Add(parcel.spec));
  SetAllGiven();
  const int slice = static_cast<int>(slices_->size()) - 1;
  TD_RETURN_IF_ERROR(slices_->SetParam(slice, Floats(parcel.image.param, parcel.spec.numel)));
  for (const SliceSnapshot::Slot& slot : parcel.image.slots) {
    TD_RETURN_IF_ERROR(slices_->SetSlot(slice, slot.name, Floats(slot.values, slot.numel)));
  }
  slices_->SetPrevious(slice, parcel.image.previous);
  return OkStatus();
}

Status ShardParams::SetScalars(std::span<const BucketMigration::Scalar> scalars) {
  for (const BucketMigration::Scalar& s : scalars) {
    const int table = tables_->Find(s.variable);
    if (table < 0) return NotFound("there is no table \"%s\"", s.variable);
    TD_RETURN_IF_ERROR(tables_->table(table).SetScalar(s.slot, s.value));
  }
  return OkStatus();
}

Status ShardParams::SetPreviousRows(std::span<const RowValues> previous) {
  for (const RowValues& rows : previous) {
    const int table = tables_->Find(rows.variable);
    if (table < 0) return NotFound("there is no table \"%s\"", rows.variable);
    if (rows.content.size() != rows.ids.size() * tables_->table(table).dim()) {
      return InvalidArgument("%d values were sent for %d previous rows of table %s",
                             rows.content.size(), rows.ids.size(), rows.variable);
    }
  }
  for (const RowValues& rows : previous) {
    tables_->table(tables_->Find(rows.variable)).SetPrevious(rows);
  }
  return OkStatus();
}

void ShardParams::CopyPreviousRows(ShardSnapshot& image) const {
  for (size_t i = 0; i < tables_->size(); ++i) {
    image.tables[i].previous = tables_->table(static_cast<int>(i)).Previous();
  }
}

Status ShardParams::Copy(ShardSnapshot& image) {
  for (size_t i = 0; i < tables_->size(); ++i) {
    TD_ASSIGN_OR_RETURN(TableSnapshot table,
                        tables_->table(static_cast<int>(i)).Image(image.version, image.base));
    table.previous = std::move(image.tables[i].previous);
    image.tables[i] = std::move(table);
  }
  for (size_t i = 0; i < slices_->size(); ++i) {
    TD_ASSIGN_OR_RETURN(SliceSnapshot slice, slices_->Image(static_cast<int>(i)));
    image.slices.push_back(std::move(slice));
  }
  return OkStatus();
}

void ShardParams::BeginSnapshot(const ShardSnapshot& image) {
  slices_->BeginSnapshot();
  for (size_t i = 0; i < tables_->size(); ++i) {
    tables_->table(static_cast<int>(i)).BeginSnapshot(image.version, image.base);
  }
}

StatusOr<bool> ShardParams::CopyChunk(const ShardSnapshot& image, size_t bytes, CutPlace& place) {
  const std::vector<SliceSpec>& slices = image.config.slices;
  size_t copied = 0;
  for (; place.slice < slices.size() && copied < bytes; ++place.slice) {
    TD_RETURN_IF_ERROR(slices_->Capture(static_cast<int>(place.slice)));
    copied += static_cast<size_t>(slices[place.slice].numel) * sizeof(float);
  }
  for (; place.table < tables_->size() && copied < bytes; ++place.table, place.bucket = 0) {
    SparseTable& table = tables_->table(static_cast<int>(place.table));
    for (; place.bucket < kRowBuckets && copied < bytes; ++place.bucket) {
      copied += table.Capture(place.bucket);
    }
    if (place.bucket < kRowBuckets) break;
  }
  return place.slice == slices.size() && place.table == tables_->size();
}

Status ShardParams::TakeCut(ShardSnapshot& image) {
  StatusOr<std::vector<SliceSnapshot>> slices = slices_->TakeCut();
  Status status = slices.status();
  if (slices.ok()) image.slices = *std::move(slices);
  for (size_t i = 0; i < tables_->size(); ++i) {
    StatusOr<TableSnapshot> table = tables_->table(static_cast<int>(i)).TakeCut();
    status.Update(table.status());
    if (!table.ok()) continue;
    table->previous = std::move(image.tables[i].previous);
    image.tables[i] = *std::move(table);
  }
  return status;
}

void ShardParams::DropCut() {
  slices_->DropCut();
  for (size_t i = 0; i < tables_->size(); ++i) tables_->table(static_cast<int>(i)).DropCut();
}

}  // namespace tandem::pserver
