// Rows of tables that a trainer pulled, to be used again while they are new enough: at most
// `versions_max` updates behind the version that is asked for (HET: Miao et al., VLDB 2022).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"

namespace tandem {

// Thread-safe. Where there is no room for a row, one goes that was not used lately (CLOCK).
class RowCache {
 public:
  struct Options {
    size_t bytes = 0;           // of all tables, which have equal parts of it
    uint64_t versions_max = 0;  // 0: the very version
  };
  struct Counts {
    uint64_t hits = 0, misses = 0;
  };

  // Bytes that a row of `dim` floats takes, with its part of the index where that is emptiest.
  static size_t BytesOfRow(int64_t dim);
  // `dims`: floats of a row, by table. REQUIRES: room for a row of each in its part.
  RowCache(Options options, const std::vector<int64_t>& dims);

  // Copies the rows among `ids` that are of `server` and new enough for `version` to their places
  // and gives the positions of the others, ascending.
  std::vector<size_t> Take(size_t table, size_t server, uint64_t version,
                           std::span<const uint64_t> ids, std::span<float* const> to);
  // Keeps rows as they were at a server's `version`, unless they are there of a later one.
  void Put(size_t table, size_t server, uint64_t version, std::span<const uint64_t> ids,
           std::span<float* const> values);
  // Forgets the rows of a server, whose versions count anew.
  void Forget(size_t server);

  Counts counts() const;

 private:
  struct Row {
    uint64_t id;
    uint64_t version;
    size_t server;
    bool used;  // since the hand passed
  };
  struct Table {
    size_t dim = 0, rows_max = 0, hand = 0;
    absl::flat_hash_map<uint64_t, uint32_t> index;
    std::vector<Row> rows;
    std::vector<float> values;
  };
  // The place of a row that is to come.
  static uint32_t MakeRoom(Table& table);

  const Options options_;
  mutable Mutex mu_;
  std::vector<Table> tables_ TD_GUARDED_BY(mu_);
  Counts counts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
