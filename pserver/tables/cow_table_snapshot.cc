#include "pserver/tables/cow_table_snapshot.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/require.h"

namespace tandem::pserver {

struct CowTableSnapshot::Progress {
  Progress(const Options& o, TableSnapshot head, const TableRowSet& rows)
      : options(o),
        pending(o.buckets),
        snapshot(std::move(head)),
        saved(rows.width(/*brief=*/false), rows.width(/*brief=*/true)) {}
  // Records `error`, which Finish returns. No further bucket is copied.
  void Fail(const Status& error) {
    status.Update(error);
    pending.reset();
  }

  const Options options;
  std::bitset<kRowBuckets> pending;  // buckets that must still be copied
  TableSnapshot snapshot;
  std::vector<RowValues> copies = std::vector<RowValues>(kRowBuckets);
  SavedRows saved;
  Status status;
};

CowTableSnapshot::CowTableSnapshot(const TableRowSet& rows) : rows_(rows) {}
CowTableSnapshot::~CowTableSnapshot() = default;

void CowTableSnapshot::Begin(const Options& options, TableSnapshot head) {
  TD_REQUIRE(head.buckets.empty());
  progress_ = std::make_unique<Progress>(options, std::move(head), rows_);
}

size_t CowTableSnapshot::CopyBucket(int bucket) {
  TD_REQUIRE(progress_ != nullptr && bucket >= 0 && bucket < kRowBuckets);
  Progress& p = *progress_;
  if (!p.pending[static_cast<size_t>(bucket)]) return 0;
  RowValues rows{.variable = rows_.table()};
  const TableRowSet::ReadOptions read{
      .version = p.options.version, .age_max = p.options.age_max, .saved = &p.saved};
  if (Status status = rows_.AppendBucket(bucket, read, rows); !status.ok()) {
    p.Fail(status);
    return 0;
  }
  p.pending.reset(static_cast<size_t>(bucket));
  const size_t bytes = rows.content.size() * sizeof(float);
  p.copies[static_cast<size_t>(bucket)] = std::move(rows);
  return bytes;
}

StatusOr<TableSnapshot> CowTableSnapshot::Finish() {
  CHECK(progress_ != nullptr && progress_->pending.none());
  const std::unique_ptr<Progress> p = std::move(progress_);
  TD_RETURN_IF_ERROR(p->status);
  for (int bucket = 0; bucket < kRowBuckets; ++bucket) {
    RowValues& rows = p->copies[static_cast<size_t>(bucket)];
    if (rows.ids.empty() && rows.waiting.empty()) continue;
    p->snapshot.buckets.emplace_back(bucket, std::move(rows));
  }
  return std::move(p->snapshot);
}

void CowTableSnapshot::Abandon() { progress_.reset(); }

void CowTableSnapshot::BeforeChange(std::span<const uint64_t> ids) {
  if (progress_ == nullptr) return;
  Progress& p = *progress_;
  std::vector<uint64_t> pending;
  for (const uint64_t id : ids) {
    if (p.pending[static_cast<size_t>(RowBucket(id))]) pending.push_back(id);
  }
  std::vector<uint32_t> at(pending.size());
  rows_.store().Find(pending, at.data());
  for (size_t i = 0; i < pending.size(); ++i) {
    const auto waiting = at[i] == RowStore::kNone
                             ? rows_.admission().Find(pending[i], p.options.version)
                             : std::nullopt;
    const Status saved =
        p.saved.Save(pending[i], rows_.store(), at[i], waiting ? &*waiting : nullptr);
    if (!saved.ok()) return p.Fail(saved);
  }
}

void CowTableSnapshot::BeforeChange(int bucket) {
  if (progress_ != nullptr) CopyBucket(bucket);
}

void CowTableSnapshot::BeforeChangeOfAll() {
  for (int bucket = 0; progress_ != nullptr && bucket < kRowBuckets; ++bucket) CopyBucket(bucket);
}

}  // namespace tandem::pserver
