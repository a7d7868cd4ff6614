// Interface for table rows that are stored outside memory. The rows extend memory; they are not
// durable. Only checkpoints and the WAL are durable (pserver/storage/storage.h).
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
  uint32_t shrinks = 0;          // stored for the caller of Put
  const void* values = nullptr;  // floats, not aligned
  bool brief = false;            // see row_store.h
};

// The rows of one table outside memory. The destructor removes the rows. Not thread-safe.
class ColdRows {
 public:
  using Take = std::function<Status(const ColdRow&)>;

  virtual ~ColdRows() = default;

  // Adds or replaces all rows. On an error, no row changes. RESOURCE_EXHAUSTED: too little disk
  // space would stay free (the message names the location).
  virtual Status Put(std::span<const ColdRow> rows) = 0;
  // Calls `take` for each row of `ids` that exists. Reorders `ids` into storage order. DATA_LOSS: a
  // row is damaged (the message names the location).
  virtual Status Get(std::vector<uint64_t>& ids, const Take& take) const = 0;
  // Calls `take` for each row of a row bucket (common/tables/row_buckets.h), by ascending ids.
  virtual Status Scan(int bucket, const Take& take) const = 0;
  // Removes the rows. Ignores ids without a row.
  virtual Status Remove(std::span<const uint64_t> ids) = 0;
};

// Stores the cold rows of all tables of one server. Thread-safe.
class ColdStore {
 public:
  virtual ~ColdStore() = default;

  // Creates an empty table. A full row has `floats` values, a brief row has `brief` values. The
  // store must outlive the table.
  virtual std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) = 0;
};

}  // namespace tandem::pserver
