// Rows of tables outside memory. They extend a cache and keep nothing: what lasts are checkpoints
// and the log (pserver/storage/storage.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "pserver/tables/row_store.h"

namespace tandem {

struct ColdRow {
  uint64_t id = 0;
  RowUse use;
  uint32_t shrinks = 0;          // kept for the caller of Put
  const void* values = nullptr;  // floats, not aligned
  bool brief = false;            // row_store.h
};

// The rows of one table outside memory; its destructor removes them. Not thread-safe.
class ColdRows {
 public:
  using Take = std::function<Status(const ColdRow&)>;

  virtual ~ColdRows() = default;

  // Adds or replaces all of them, or fails and changes nothing: RESOURCE_EXHAUSTED naming the
  // place when too little room would stay free.
  virtual Status Put(std::span<const ColdRow> rows) = 0;
  // Calls `take` for those of `ids` that are there. Orders `ids` as they lie there. DATA_LOSS
  // naming the place when a row is damaged.
  virtual Status Get(std::vector<uint64_t>& ids, const Take& take) const = 0;
  // The same for the rows of a bucket (common/tensor/row_buckets.h), by ascending ids.
  virtual Status Scan(int bucket, const Take& take) const = 0;
  // Ids that are not there do no harm.
  virtual Status Remove(std::span<const uint64_t> ids) = 0;
};

// The place of one server for such rows. Thread-safe.
class ColdStore {
 public:
  virtual ~ColdStore() = default;

  // An empty table of rows of `floats` values, brief ones of `brief`. The store must outlive it.
  virtual std::unique_ptr<ColdRows> NewTable(int64_t floats, int64_t brief) = 0;
};

}  // namespace tandem
