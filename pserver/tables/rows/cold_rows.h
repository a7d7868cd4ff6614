// Interface for table rows that are stored outside memory, so that a table can be larger than the
// memory. A restart loses these rows: only checkpoints and the WAL are durable
// (pserver/storage/storage.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

struct ColdRow {
  uint64_t id = 0;
  RowUse use;
  uint32_t shrinks = 0;          // number that the caller of Put chooses; Get and Scan return it
  const void* values = nullptr;  // floats of the row, not aligned
  bool brief = false;            // whether the row is a brief row (row_store.h)
};

// The rows of one table that are outside memory. The destructor deletes the rows. Not thread-safe.
class ColdRows {
 public:
  using Take = std::function<Status(const ColdRow&)>;

  virtual ~ColdRows() = default;

  // Adds or replaces rows. On an error, no row changes. RESOURCE_EXHAUSTED: the write would leave
  // too little free disk space (the message names the directory).
  virtual Status Put(std::span<const ColdRow> rows) = 0;
  // Calls `take` for each row of `ids` that is stored. Reorders `ids` into the order of the
  // storage. DATA_LOSS: a row is damaged (the message names the directory).
  virtual Status Get(std::vector<uint64_t>& ids, const Take& take) const = 0;
  // Calls `take` for each row of a row bucket (common/tables/row_buckets.h) that is stored. The ids
  // ascend.
  virtual Status Scan(int bucket, const Take& take) const = 0;
  // Removes the rows of `ids`. Ignores ids without a stored row.
  virtual Status Remove(std::span<const uint64_t> ids) = 0;
};

// Stores the rows outside memory, for all tables of one server. Thread-safe.
class ColdStore {
 public:
  virtual ~ColdStore() = default;

  // Creates an empty table. `floats`: number of values of a full row. `brief`: number of values of
  // a brief row. The store must outlive the table.
  virtual std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) = 0;
};

}  // namespace tandem::pserver
