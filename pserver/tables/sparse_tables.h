// All tables of rows of one shard. DenseTable has the corresponding functions for dense slices.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "pserver/state/bucket_move.h"
#include "pserver/state/pull.h"
#include "pserver/tables/gathered_gradients.h"
#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

// The memory for the rows of all tables of a server.
struct TableMemory {
  uint64_t bytes = 0;         // limit in bytes; 0: unlimited
  ColdStore* cold = nullptr;  // store for rows that exceed the limit
  // Maximum number of changed rows that each table remembers for readers (ChangedRows); 0: none.
  size_t changed_rows = 0;
};
// Divides `bytes` bytes of memory among tables, and returns the share of each table. No share
// exceeds the table's entry of `bytes_max`. All tables whose share is below their entry have equal
// shares.
std::vector<double> ShareMemory(const std::vector<double>& bytes_max, double bytes);

// Owns the tables of one shard. Not thread-safe (the shard's lock guards it).
class SparseTables {
 public:
  // `backend`, `device`, `memory.cold` and `workers` must outlive the tables.
  static StatusOr<std::unique_ptr<SparseTables>> Make(const ShardConfig& config,
                                                      const exec::Backend& backend, Device& device,
                                                      const TableMemory& memory = {},
                                                      ForkJoin* workers = nullptr);

  size_t size() const { return tables_.size(); }
  size_t rows() const;  // number of rows in all tables
  SparseTable& table(int i) { return *tables_[Checked(i)]; }
  const SparseTable& table(int i) const { return *tables_[Checked(i)]; }
  // Returns the index of the table; -1: no table has this name.
  int Find(const std::string& variable) const;

  // ---- Buckets (all tables have the same buckets) -----------------------------------------------
  bool Serves(int bucket) const { return !tables_.empty() && tables_[0]->buckets().serves(bucket); }
  bool ServesAny() const { return !tables_.empty() && tables_[0]->buckets().ServesAny(); }
  void Keep(int bucket, bool served);
  Status DropBucket(int bucket);

  // ---- Values by the name of their table --------------------------------------------------------
  // NOT_FOUND: the table is unknown. INVALID_ARGUMENT: ids are invalid, or there are too many rows.
  // OUT_OF_RANGE: this server does not serve a row.
  Status CheckRows(const PullRows& rows) const;
  Status SetScalars(std::span<const BucketMigration::Scalar> scalars);
  // Sets the weights that rows had before the last update. NOT_FOUND, INVALID_ARGUMENT: a table or
  // a number of values is wrong; nothing changes.
  Status SetPrevious(std::span<const RowValues> previous);

  // ---- Updates ----------------------------------------------------------------------------------
  // Calls SparseTable::Begin for every table.
  Status Begin(uint64_t version, int64_t event_time_ms, bool keep_previous);
  // Updates every table once with the sum of the gradients of `ranks` (ascending). REQUIRES: Begin
  // was called, and `gathered` has a gradient of each table from each rank.
  Status ApplyStep(const TableGradients& gathered, std::span<const int> ranks, float learning_rate);

 private:
  size_t Checked(int i) const {
    TD_REQUIRE(i >= 0 && static_cast<size_t>(i) < tables_.size());
    return static_cast<size_t>(i);
  }
  Status Limit(const TableMemory& memory, bool may_get_all);

  std::vector<std::unique_ptr<SparseTable>> tables_;
  std::unordered_map<std::string, int> index_;
};

}  // namespace tandem::pserver
