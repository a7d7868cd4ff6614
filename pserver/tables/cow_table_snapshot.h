// A copy-on-write snapshot of the rows of a table. It is copied bucket by bucket while the table
// changes. A row of a bucket that is not copied yet is saved before its first change.
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/tables/row_buckets.h"
#include "pserver/state/shard_types.h"
#include "pserver/tables/row_store.h"

namespace tandem::pserver {

// Copy-on-write snapshot of one table. Create it, call Save before each change of a row in a
// pending bucket, call Add for each bucket, then Take once. Not thread-safe.
class CowTableSnapshot {
 public:
  // State of a row at the time of the snapshot.
  struct Saved {
    bool kept = false;   // false: Save was not called for the row, so it has not changed
    bool there = false;  // the row existed; `at` is its index in rows()
    uint32_t at = RowStore::kNone;
  };

  // `floats`, `brief`: as for the table's RowStore. `image`: the snapshot without its rows. The
  // snapshot omits rows whose last update is more than `age_max` versions before `version`.
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

  // Saves the row at index `at` of `rows`. kNone saves the fact that the row does not exist. Does
  // nothing if `id` is already saved. `waiting`: the row's admission state, or null.
  void Save(uint64_t id, const RowStore& rows, uint32_t at, const WaitingRow* waiting);
  Saved Find(uint64_t id) const;
  const RowStore& rows() const { return rows_; }
  // Ids of all saved rows of a bucket, ascending.
  std::vector<uint64_t> SavedIds(int bucket) const { return rows_.IdsOf(bucket); }
  // The rows of a bucket that waited for admission at the time of the snapshot.
  std::vector<WaitingRow> Waiting(int bucket, std::span<const WaitingRow> now) const;

  // Adds the rows of a bucket as of the snapshot. The bucket is no longer pending.
  void Add(int bucket, RowValues rows);
  // Makes Take fail with `status`.
  void Fail(const Status& status);
  // Returns the snapshot. REQUIRES: no bucket is pending. Call once.
  StatusOr<TableSnapshot> Take();

 private:
  static constexpr uint8_t kThere = 1;

  const uint32_t version_, age_max_;
  std::bitset<kRowBuckets> pending_;
  TableSnapshot image_;
  std::map<int, RowValues> buckets_;
  RowStore rows_;  // marks: kThere, or 0
  // by bucket: the waiting rows that Save received.
  std::map<int, std::vector<WaitingRow>> waiting_;
  Status status_;
};

}  // namespace tandem::pserver
