// The rows of a table as they are at a cut, copied bucket by bucket while others change them: of a
// bucket that was not copied yet, a row is kept as it is before its first change.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/tensor/row_buckets.h"
#include "pserver/state/shard_types.h"
#include "pserver/tables/row_store.h"

namespace tandem {

// Not thread-safe.
class CowTableSnapshot {
 public:
  // A row as it was.
  struct Saved {
    bool kept = false;   // false: it did not change
    bool there = false;  // there was such a row, at place `at` of rows()
    uint32_t at = RowStore::kNone;
  };

  // `floats`, `brief`: as of the table's RowStore. `image`: all but its rows. Rows whose last
  // update is more than `age_max` versions before `version` are left out.
  CowTableSnapshot(int64_t floats, int64_t brief, uint32_t version, uint32_t age_max,
                   const std::bitset<kRowBuckets>& buckets, TableSnapshot image)
      : version_(version),
        age_max_(age_max),
        pending_(buckets),
        image_(std::move(image)),
        rows_(floats, brief) {}

  uint32_t version() const { return version_; }
  uint32_t age_max() const { return age_max_; }
  bool pending(int bucket) const { return pending_[static_cast<size_t>(bucket)]; }

  // Keeps the row at `at` of `rows`, or that there is none (kNone), unless it did already.
  // `waiting`: as what it waits to be admitted, or null.
  void Save(uint64_t id, const RowStore& rows, uint32_t at, const WaitingRow* waiting);
  Saved Find(uint64_t id) const;
  const RowStore& rows() const { return rows_; }
  // Of a bucket, all that Save was told of, ascending.
  std::vector<uint64_t> SavedIds(int bucket) const { return rows_.IdsOf(bucket); }
  // The list of those that wait in a bucket, as it was.
  std::vector<WaitingRow> Waiting(int bucket, std::span<const WaitingRow> now) const;

  // The bucket as it was; it is pending no more.
  void Add(int bucket, RowValues rows);
  // There will be no image.
  void Fail(const Status& status);
  // REQUIRES: no bucket is pending. Once.
  StatusOr<TableSnapshot> Take();

 private:
  static constexpr uint8_t kThere = 1;

  const uint32_t version_, age_max_;
  std::bitset<kRowBuckets> pending_;
  TableSnapshot image_;
  std::map<int, RowValues> buckets_;
  RowStore rows_;                                   // marks: kThere, or 0
  std::map<int, std::vector<WaitingRow>> waiting_;  // by bucket, those that Save was told of
  Status status_;
};

}  // namespace tandem
