// The records of the global snapshots in a store, and which of them are predecessors of the present
// state.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/global_snapshot.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace tandem {
class ShardMeta;  // a message of proto/pserver.proto
}  // namespace tandem

namespace tandem::pserver {

// The changes are added to a batch, which the caller writes. Not thread-safe: between the call and
// the write of the batch, no other change may be made.
class SnapshotRecords {
 public:
  // `dir`: directory of the store.
  explicit SnapshotRecords(std::string dir) : dir_(std::move(dir)) {}
  void Open(rocksdb::DB* db) { db_ = db; }  // `db` must outlive this object

  // Calls `take` with the number and the serialized ShardMeta of each snapshot, by ascending
  // numbers.
  Status Each(const std::function<void(uint64_t, std::string_view)>& take) const;
  // Returns the snapshots by ascending numbers.
  StatusOr<std::vector<StoredGlobalSnapshot>> List() const;
  // Returns the serialized ShardMeta of a snapshot. NOT_FOUND: there is no such snapshot.
  StatusOr<std::string> Get(uint64_t number) const;

  // Adds the removal of snapshots, the record of the new snapshot `number` (`made` null: there is
  // none), and the changed parents of the others. Sets the parent in `made`.
  Status Change(std::span<const uint64_t> removed, ShardMeta* made, uint64_t number,
                rocksdb::WriteBatch* batch) const;
  // Makes snapshot `number` the predecessor that was restored last.
  static void SetRestored(uint64_t number, rocksdb::WriteBatch* batch);

  // ---- Checkpoints that another server may fetch ------------------------------------------------
  // Lists the predecessors of the present state in the record of a new checkpoint. `before`: the
  // record of the checkpoint that it replaces, whose predecessors another server may have although
  // this store has them no more. `restored`: number of the snapshot that was restored since
  // `before`; 0: none.
  Status ListPredecessors(const ShardMeta& before, uint64_t restored, ShardMeta* checkpoint) const;
  // Adds the removal of all snapshots that the fetched checkpoint does not list. The others become
  // its predecessors. A checkpoint of an earlier version lists none, and nothing is removed.
  Status KeepPredecessors(const ShardMeta& checkpoint, rocksdb::WriteBatch* batch) const;

 private:
  // Returns the number of the snapshot that was taken or restored last; 0: unknown.
  StatusOr<uint64_t> Head() const;

  const std::string dir_;
  rocksdb::DB* db_ = nullptr;
};

}  // namespace tandem::pserver
