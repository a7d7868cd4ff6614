// All tables of one shard. The counterpart of DenseTable for rows.
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

// Memory for the rows of all tables of a server.
struct TableMemory {
  uint64_t bytes = 0;         // 0: unlimited
  ColdStore* cold = nullptr;  // storage for rows beyond the limit
};
// Divides `bytes` among tables. No table gets more than its entry of `bytes_max`; all tables that
// can use more get equal shares.
std::vector<double> ShareMemory(const std::vector<double>& bytes_max, double bytes);

// Owns the tables of one shard. Not thread-safe (the shard's lock guards it).
class SparseTables {
 public:
  // `backend`, `device`, `memory.cold` and `workers` must outlive the tables.
  static StatusOr<std::unique_ptr<SparseTables>> Make(const ShardConfig& config,
                                                      const Backend& backend, Device& device,
                                                      const TableMemory& memory = {},
                                                      ForkJoin* workers = nullptr);

  size_t size() const { return tables_.size(); }
  size_t rows() const;  // in all tables
  SparseTable& table(int i) { return *tables_[Checked(i)]; }
  const SparseTable& table(int i) const { return *tables_[Checked(i)]; }
  // -1: no table has this name.
  int Find(const std::string& variable) const;

  // ---- Buckets: the same ones of all tables -----------------------------------------------------
  bool Serves(int bucket) const { return !tables_.empty() && tables_[0]->buckets().serves(bucket); }
  bool ServesAny() const { return !tables_.empty() && tables_[0]->buckets().ServesAny(); }
  void Keep(int bucket, bool served);
  Status DropBucket(int bucket);

  // ---- Values by the name of their table --------------------------------------------------------
  // NOT_FOUND: unknown table. INVALID_ARGUMENT: invalid ids, or too many rows. OUT_OF_RANGE: a row
  // is not served here.
  Status CheckRows(const PullRows& rows) const;
  Status SetScalars(std::span<const BucketMigration::Scalar> scalars);
  // Sets the weights of rows before the last update. On an error, nothing changes.
  Status SetPrevious(std::span<const RowValues> previous);

  // ---- Updates ----------------------------------------------------------------------------------
  // Calls SparseTable::Begin of every table.
  Status Begin(uint64_t version, bool keep_previous);
  // For every table: one update with the sum of the gradients of `ranks` (ascending). REQUIRES:
  // Begin was called; `gathered` has a gradient of each table from each rank.
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
