// The part of SparseTable that makes snapshots.
#include <utility>

#include "common/tables/row_buckets.h"
#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

CowTableSnapshot SparseTable::MakeCut(uint64_t version, std::optional<uint64_t> since) const {
  TableSnapshot image;
  image.scalars = updater_.scalars();
  image.partial = since.has_value() && idle_ == UntouchedRowPolicy::kStay;
  const auto age_max = image.partial ? static_cast<uint32_t>(version - *since) : UINT32_MAX;
  return {width_, brief_width_, static_cast<uint32_t>(version), age_max, kept_, std::move(image)};
}

size_t SparseTable::Capture(CowTableSnapshot& cut, int bucket) const {
  if (!cut.pending(bucket)) return 0;
  RowValues rows{.variable = spec_.variable};
  if (Status status = AppendBucket(bucket, true, cut.version(), rows, &cut); !status.ok()) {
    cut.Fail(status);
    return 0;
  }
  const size_t bytes = rows.content.size() * sizeof(float);
  cut.Add(bucket, std::move(rows));
  return bytes;
}

StatusOr<TableSnapshot> SparseTable::Image(uint64_t version, std::optional<uint64_t> since) const {
  CowTableSnapshot cut = MakeCut(version, since);
  for (int bucket = 0; bucket < kRowBuckets; ++bucket) Capture(cut, bucket);
  return cut.Take();
}

void SparseTable::BeginSnapshot(uint64_t version, std::optional<uint64_t> since) {
  cut_ = std::make_unique<CowTableSnapshot>(MakeCut(version, since));
}

size_t SparseTable::Capture(int bucket) { return Capture(*cut_, bucket); }

StatusOr<TableSnapshot> SparseTable::TakeCut() {
  const std::unique_ptr<CowTableSnapshot> cut = std::move(cut_);
  return cut->Take();
}

void SparseTable::BeforeChange(std::span<const uint64_t> ids) {
  if (cut_ == nullptr) return;
  std::vector<uint64_t> pending;
  for (const uint64_t id : ids) {
    if (cut_->pending(RowBucket(id))) pending.push_back(id);
  }
  std::vector<uint32_t> at(pending.size());
  store_.Find(pending, at.data());
  for (size_t i = 0; i < pending.size(); ++i) {
    const auto waiting =
        at[i] == RowStore::kNone ? admission_.Find(pending[i], cut_->version()) : std::nullopt;
    cut_->Save(pending[i], store_, at[i], waiting ? &*waiting : nullptr);
  }
}

void SparseTable::BeforeChangeOfAll() {
  for (int bucket = 0; cut_ != nullptr && bucket < kRowBuckets; ++bucket) Capture(*cut_, bucket);
}

}  // namespace tandem::pserver
