#include "pserver/rocksdb/snapshot_records.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/base/require.h"
#include "proto/pserver.pb.h"
#include "pserver/rocksdb/rocksdb_status.h"
#include "pserver/rocksdb/snapshot_lineage.h"
#include "pserver/rocksdb/store_keys.h"
#include "pserver/rocksdb/store_meta.h"

namespace tandem::pserver {
namespace {

// Maximum number of predecessors that a checkpoint lists. The newest are listed.
constexpr size_t kListedMax = 1000;

// Parses a record. If it is damaged, some fields have their defaults.
ShardMeta MetaOf(std::string_view text) {
  ShardMeta meta;
  (void)meta.ParseFromArray(text.data(), static_cast<int>(text.size()));
  return meta;
}

bool IsDamaged(const ShardMeta& meta) { return !ValuesNumber(meta.values_file()); }

// Returns the parent of a snapshot. `before`: the snapshots with lower numbers.
uint64_t ParentOf(const ShardMeta& meta, const SnapshotLineage& before) {
  return meta.has_parent() ? meta.parent() : before.newest();
}

// Returns the listed predecessors: number and time. The numbers of two jobs, or of a lost state,
// may be the same, but not their times.
std::map<uint64_t, int64_t> Listed(const ShardMeta& checkpoint) {
  std::map<uint64_t, int64_t> listed;
  const SnapshotIds& ids = checkpoint.predecessors();
  for (int i = 0; i < std::min(ids.number_size(), ids.taken_us_size()); ++i) {
    listed[ids.number(i)] = ids.taken_us(i);
  }
  return listed;
}

}  // namespace

Status SnapshotRecords::Each(const std::function<void(uint64_t, std::string_view)>& take) const {
  TD_REQUIRE(db_ != nullptr);
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
  const rocksdb::Slice prefix(keys::kSnapshotBegin);
  for (it->Seek(prefix); it->Valid() && it->key().starts_with(prefix); it->Next()) {
    uint64_t number = 0;
    if (keys::ParseNumbered(it->key().ToStringView(), keys::kSnapshotBegin, &number)) {
      take(number, it->value().ToStringView());
    }
  }
  return FromRocksdb(it->status(), "cannot read the snapshots of " + dir_);
}

StatusOr<std::vector<StoredGlobalSnapshot>> SnapshotRecords::List() const {
  std::vector<StoredGlobalSnapshot> snapshots;
  SnapshotLineage lineage;
  TD_ASSIGN_OR_RETURN(const uint64_t head, Head());
  TD_RETURN_IF_ERROR(Each([&](uint64_t number, std::string_view text) {
    // The version of a damaged record is 0. ReadGlobalSnapshot rejects the record.
    const ShardMeta meta = MetaOf(text);
    std::error_code unknown;
    const uintmax_t bytes = std::filesystem::file_size(dir_ + "/" + meta.values_file(), unknown);
    lineage.Add(number, ParentOf(meta, lineage));
    snapshots.push_back({.number = number,
                         .version = meta.version(),
                         .time_us = meta.taken_us(),
                         .bytes = unknown ? 0 : static_cast<uint64_t>(bytes),
                         .log_number = meta.log_number(),
                         .rebuilt = meta.rebuilt()});
  }));
  const std::set<uint64_t> predecessors = lineage.Predecessors(head);
  for (StoredGlobalSnapshot& s : snapshots) s.abandoned = !predecessors.contains(s.number);
  return snapshots;
}

StatusOr<std::string> SnapshotRecords::Get(uint64_t number) const {
  TD_REQUIRE(db_ != nullptr);
  std::string text;
  const rocksdb::Status got = db_->Get({}, keys::Snapshot(number), &text);
  if (got.IsNotFound()) {
    return NotFound(
        "%s contains no snapshot %d [TD4020]; hint: run tandem restore --list to see the snapshots",
        dir_, number);
  }
  TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read a snapshot of " + dir_));
  return text;
}

StatusOr<uint64_t> SnapshotRecords::Head() const {
  TD_REQUIRE(db_ != nullptr);
  std::string text;
  const rocksdb::Status got = db_->Get({}, keys::kHead, &text);
  if (got.IsNotFound()) return uint64_t{0};
  TD_RETURN_IF_ERROR(FromRocksdb(got, "cannot read " + dir_));
  uint64_t head = 0;
  (void)absl::SimpleAtoi(text, &head);
  return head;
}

Status SnapshotRecords::Change(std::span<const uint64_t> removed, ShardMeta* made, uint64_t number,
                               rocksdb::WriteBatch* batch) const {
  TD_REQUIRE(made == nullptr || number != 0);
  TD_ASSIGN_OR_RETURN(const uint64_t head, Head());
  std::set<uint64_t> gone(removed.begin(), removed.end());
  gone.erase(number);
  SnapshotLineage lineage;
  std::map<uint64_t, ShardMeta> metas;
  TD_RETURN_IF_ERROR(Each([&](uint64_t n, std::string_view text) {
    metas[n] = MetaOf(text);
    lineage.Add(n, ParentOf(metas[n], lineage));
  }));
  uint64_t new_head = head == 0 ? lineage.newest() : head;
  if (made != nullptr) {
    uint64_t parent = lineage.Remaining(new_head, {number});
    // A rebuilt state follows the newest predecessor that is not later.
    while (made->rebuilt() && parent != 0 && metas[parent].version() > made->version()) {
      parent = lineage.Remaining(parent, {parent});
    }
    lineage.Add(number, parent);
    metas[number] = *made;
    if (!made->rebuilt()) new_head = number;
  }
  new_head = lineage.Remaining(new_head, gone);
  lineage.Remove(gone);
  for (const uint64_t n : gone) (void)batch->Delete(keys::Snapshot(n));
  for (const auto& [n, parent] : lineage.parents()) {
    ShardMeta& meta = metas[n];
    if (n != number && meta.has_parent() && meta.parent() == parent) continue;
    if (n != number && IsDamaged(meta)) continue;  // a damaged record stays
    meta.set_parent(parent);
    (void)batch->Put(keys::Snapshot(n), meta.SerializeAsString());
  }
  (void)batch->Put(keys::kHead, std::to_string(new_head));
  return OkStatus();
}

void SnapshotRecords::SetRestored(uint64_t number, rocksdb::WriteBatch* batch) {
  TD_REQUIRE(number != 0);
  (void)batch->Put(keys::kHead, std::to_string(number));
}

Status SnapshotRecords::ListPredecessors(const ShardMeta& before, uint64_t restored,
                                         ShardMeta* checkpoint) const {
  TD_REQUIRE(checkpoint != nullptr);
  std::map<uint64_t, int64_t> listed = Listed(before);
  if (restored != 0) listed.erase(listed.upper_bound(restored), listed.end());
  TD_ASSIGN_OR_RETURN(const std::vector<StoredGlobalSnapshot> stored, List());
  for (const StoredGlobalSnapshot& s : stored) {
    if (!s.abandoned) listed[s.number] = s.time_us;
  }
  while (listed.size() > kListedMax) listed.erase(listed.begin());
  SnapshotIds* const ids = checkpoint->mutable_predecessors();
  for (const auto& [number, time_us] : listed) {
    ids->add_number(number);
    ids->add_taken_us(time_us);
  }
  return OkStatus();
}

Status SnapshotRecords::KeepPredecessors(const ShardMeta& checkpoint,
                                         rocksdb::WriteBatch* batch) const {
  if (!checkpoint.has_predecessors()) return OkStatus();
  const std::map<uint64_t, int64_t> listed = Listed(checkpoint);
  uint64_t newest = 0;
  TD_RETURN_IF_ERROR(Each([&](uint64_t number, std::string_view text) {
    ShardMeta meta = MetaOf(text);
    const auto found = listed.find(number);
    if (found == listed.end() || found->second != meta.taken_us()) {
      (void)batch->Delete(keys::Snapshot(number));
      return;
    }
    if (!IsDamaged(meta)) {
      meta.set_parent(newest);
      (void)batch->Put(keys::Snapshot(number), meta.SerializeAsString());
    }
    newest = number;
  }));
  (void)batch->Put(keys::kHead, std::to_string(newest));
  return OkStatus();
}

}  // namespace tandem::pserver
