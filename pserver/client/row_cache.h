// A cache of table rows that a trainer pulled. A row is reused while it is at most `versions_max`
// versions older than the requested version (HET: Miao et al., VLDB 2022).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/client/client.h"

namespace tandem::ps {

// The row cache of one client. Thread-safe. If there is no room for a new row, the cache evicts a
// row that was not used recently (CLOCK algorithm).
class RowCache {
 public:
  struct Options {
    size_t bytes = 0;  // memory in bytes; all tables get equal shares
    // Maximum age of a reused row in versions; 0: only rows of the requested version are reused.
    uint64_t versions_max = 0;
  };
  struct Counts {
    uint64_t hits = 0, misses = 0;
  };

  // Creates a cache; null: `options.bytes` is 0, or there are no tables. INVALID_ARGUMENT: the
  // share of a table in `options.bytes` is too small for one row.
  static StatusOr<std::unique_ptr<RowCache>> Make(Options options,
                                                  const std::vector<PsTable>& tables);
  // Returns the memory in bytes of a row of `dim` floats, including its share of the index at the
  // lowest load.
  static size_t BytesOfRow(int64_t dim);
  // `dims`: floats per row, by table. REQUIRES: each share has room for at least one row.
  RowCache(Options options, const std::vector<int64_t>& dims);

  // Copies row ids[i] to to[i] if the cache has this row from `server` and the row is new enough
  // for `version`. Returns the positions i of all other rows, ascending.
  std::vector<size_t> Take(size_t table, size_t server, uint64_t version,
                           std::span<const uint64_t> ids, std::span<float* const> to);
  // Stores rows that have the server's `version`. If a cached row has a later version of the same
  // server, it stays unchanged.
  void Put(size_t table, size_t server, uint64_t version, std::span<const uint64_t> ids,
           std::span<float* const> values);
  // Removes the rows of a server. Called after the server's rows moved or its versions began again.
  void Forget(size_t server);

  Counts counts() const;

 private:
  struct Row {
    uint64_t id;
    uint64_t version;
    size_t server;
    bool used;  // whether the row was used since the clock hand last passed it
  };
  struct Table {
    size_t dim = 0, rows_max = 0, hand = 0;
    absl::flat_hash_map<uint64_t, uint32_t> index;
    std::vector<Row> rows;
    std::vector<float> values;
  };
  // Returns the position for a new row. Evicts a row if the table is full.
  static uint32_t MakeRoom(Table& table);

  const Options options_;
  mutable Mutex mu_;
  std::vector<Table> tables_ TD_GUARDED_BY(mu_);
  Counts counts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::ps
