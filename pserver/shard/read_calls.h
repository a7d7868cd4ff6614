// Calls to a shard that read its state and change nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/shard/shard.h"
#include "pserver/state/changes.h"

namespace tandem::pserver {

// Thread-safe, like Shard. Any caller may make these calls. UNAVAILABLE, FAILED_PRECONDITION: the
// shard has no initial values yet, or has failed.
class Shard::Reads {
 public:
  explicit Reads(Shard& shard) : shard_(shard) {}

  // Returns the version and the optimizer slots of `variables`; empty: of all variables.
  StatusOr<VersionedSlots> PullState(const std::string& job,
                                     const std::vector<std::string>& variables);

  // Returns rows of the row buckets [bucket, end) (TableReads::Page). `end` 0: up to the last
  // bucket; otherwise this server must serve all of these buckets (OUT_OF_RANGE).
  StatusOr<TablePage> PullTable(const std::string& job, const std::string& variable, int bucket,
                                bool slots, uint64_t bytes_max, int end = 0);

  // Returns the changes of a table since the position of a reader. The caller sends them after
  // WhenLogged, so that a reader gets no change that may be lost.
  StatusOr<TableChanges> ReadChanges(const ChangesQuery& query);

  // Returns how many of `rows` exist: how many rows had a gradient and were not removed.
  // The caller sends the number after WhenLogged, as for ReadChanges.
  StatusOr<size_t> CountRows(const std::string& job, const std::vector<PullRows>& rows);
  // Returns the number of rows of a table on this server. NOT_FOUND: there is no such table. The
  // caller sends the number after WhenLogged.
  StatusOr<size_t> CountTable(const std::string& job, const std::string& variable);

  // Returns the served slices of dense variables.
  StatusOr<std::vector<SliceSpec>> Slices();
  // Returns a copy of a served slice with its optimizer slots. `offset`: its first element.
  // NOT_FOUND: the shard has no such slice.
  StatusOr<SliceSnapshot> ReadSlice(const std::string& variable, int64_t offset);
  // Returns those of `ids` that exist in a table, with their slots. NOT_FOUND: there is no such
  // table.
  StatusOr<TablePage> ReadRows(const std::string& variable, std::span<const uint64_t> ids);
  // Returns the one-number slots of a table. NOT_FOUND: there is no such table.
  StatusOr<std::vector<std::pair<std::string, float>>> ReadScalars(const std::string& variable);
  uint64_t version();

 private:
  // Returns a table of the shard, whose lock the caller holds.
  StatusOr<SparseTable*> TableNamed(const std::string& variable) TD_REQUIRES(shard_.mu_);

  Shard& shard_;
};

}  // namespace tandem::pserver
