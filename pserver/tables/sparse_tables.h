// All tables of one shard, with the gradients of the step that is being gathered. The counterpart
// of DenseTable for rows.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

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

// The two tensors of a push to one table.
struct PushedRows {
  Buffer ids;     // i64 [count]
  Buffer values;  // f32 [count, dim]
  size_t count = 0;
  RowsGradient view() const {
    return {{reinterpret_cast<const uint64_t*>(ids.get()), count},
            reinterpret_cast<const float*>(values.get())};
  }
};

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
  SparseTable& table(int i) { return *tables_[i].table; }
  const SparseTable& table(int i) const { return *tables_[i].table; }
  // -1: no table has this name.
  int Find(const std::string& variable) const;

  // ---- The step being gathered (sync): as in DenseTable -----------------------------------------
  bool Has(int i, int trainer) const { return tables_[i].has[trainer]; }
  void Gather(int i, int trainer, PushedRows rows);
  int gathered(int trainer) const { return gathered_[trainer]; }
  void Drop(int trainer);
  // Calls SparseTable::Begin of every table.
  Status Begin(uint64_t version, bool keep_previous);
  // REQUIRES: each of `ranks` (ascending) has sent every table; Begin was called.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate);

 private:
  struct Table {
    std::unique_ptr<SparseTable> table;
    std::vector<PushedRows> gathered;  // by trainer
    std::vector<bool> has;
  };
  Status Limit(const TableMemory& memory, bool rows_come);

  std::vector<Table> tables_;
  std::vector<int> gathered_;  // number of tables, by trainer
  std::unordered_map<std::string, int> index_;
};

}  // namespace tandem::pserver
