// Interface for table rows that are stored outside memory. These rows only extend the memory. They
// are not durable: only checkpoints and the WAL are (pserver/storage/storage.h).
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
  uint32_t shrinks = 0;          // number that the caller of Put chooses and that Get returns
  const void* values = nullptr;  // floats of the row, not aligned
  bool brief = false;            // whether the row is a brief row (row_store.h)
};

// The rows of one table that are outside memory. The destructor removes the rows. Not thread-safe.
class ColdRows {
 public:
  using Take = std::function<Status(const ColdRow&)>;

  virtual ~ColdRows() = default;

  // Adds or replaces rows. On an error, no row changes. RESOURCE_EXHAUSTED: too little disk space
  // would stay free (the message names the directory).
  virtual Status Put(std::span<const ColdRow> rows) = 0;
  // Calls `take` for each stored row of `ids`. Reorders `ids` into the order of the storage.
  // DATA_LOSS: a row is damaged (the message names the directory).
  virtual Status Get(std::vector<uint64_t>& ids, const Take& take) const = 0;
  // Calls `take` for each stored row of a row bucket (common/tables/row_buckets.h), by ascending
  // ids.
  virtual Status Scan(int bucket, const Take& take) const = 0;
  // Removes the rows of `ids`. Ignores ids without a stored row.
  virtual Status Remove(std::span<const uint64_t> ids) = 0;
};

// Stores the rows outside memory, for all tables of one server. Thread-safe.
class ColdStore {
 public:
  virtual ~ColdStore() = default;

  // Creates an empty table. `floats`: values of a full row; `brief`: values of a brief row. The
  // store must outlive the table.
  virtual std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) = 0;
};

}  // namespace tandem::pserver
