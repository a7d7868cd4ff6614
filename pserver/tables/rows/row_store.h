// Stores f32 rows by 64-bit id: an index (row_id_index.h) maps ids to row indices in slabs
// (row_slabs.h). Only Remove and Extend change the indices of rows.
//
// A row has one of two lengths (row_accessor.h). Brief rows are in separate slabs, and their
// indices have the highest bit set. If a store can have brief rows, it also stores clicks.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "pserver/tables/rows/row_id_index.h"
#include "pserver/tables/rows/row_slabs.h"

namespace tandem::pserver {

// Bytes of memory of a row of `floats` values, including its share of the index at the lowest load.
constexpr size_t RowMemoryBytes(int64_t floats) {
  return RowSlabs::BytesOfRow(floats) + RowHashTable::kBytesOfRow;
}

// Row storage of one table. Not thread-safe.
class RowStore {
 public:
  static constexpr uint32_t kNone = RowIdIndex::kNone;

  // `floats`: number of values of a full row, at least 1. `brief`: number of values of a brief row;
  // 0: the store has no brief rows.
  explicit RowStore(int64_t floats, int64_t brief = 0);

  // Writes the index of each of `ids` to `at`; kNone: the row is absent. Looks up the ids in
  // groups, so that cache misses overlap.
  void Find(std::span<const uint64_t> ids, uint32_t* at) const;
  // Adds a row with uninitialised values and mark 0, and returns its index. REQUIRES: the row is
  // absent. RESOURCE_EXHAUSTED: there is no memory.
  StatusOr<uint32_t> Add(uint64_t id, bool brief = false);
  // Returns the index of the row. If the row is absent, adds it like Add.
  StatusOr<uint32_t> FindOrAdd(uint64_t id, bool brief = false);
  // Replaces a brief row by a full row with uninitialised values, and returns the new index. The
  // use data and the mark stay. REQUIRES: the row is brief.
  StatusOr<uint32_t> Extend(uint32_t at);
  // ---- Adding many rows -------------------------------------------------------------------------
  // Adds `more` rows without ids, and returns the index of the first; the other indices follow it.
  // Call Insert for each of these rows next. RESOURCE_EXHAUSTED: there is no memory; no rows are
  // added.
  StatusOr<uint32_t> Grow(size_t more, bool brief);
  // Assigns `id` to the row at index `at`, and resets the row's use data and mark. Several threads
  // may call Insert if their ids are in different buckets. REQUIRES: `id` is absent.
  void Insert(uint64_t id, uint32_t at);
  void Expect(std::span<const uint64_t> ids) { index_.Expect(ids); }
  // Removes a row. The last row of the same length gets its index.
  void Remove(uint32_t at);
  // A number that changes whenever the index of a row changes. Row indices are valid as long as
  // this number is unchanged.
  uint64_t moves() const { return moves_; }
  const RowIdIndex& index() const { return index_; }

  bool brief(uint32_t at) const { return (at & brief_bit_) != 0; }
  const RowSlabs& slabs(bool brief) const { return slabs_[brief ? 1 : 0]; }
  float* Row(uint32_t at) { return SlabsOf(at).values(InSlabs(at)); }
  const float* Row(uint32_t at) const { return SlabsOf(at).values(InSlabs(at)); }
  uint64_t Id(uint32_t at) const { return SlabsOf(at).id(InSlabs(at)); }
  RowUse Use(uint32_t at) const { return SlabsOf(at).Use(InSlabs(at)); }
  void SetUse(uint32_t at, const RowUse& use) { SlabsOf(at).SetUse(InSlabs(at), use); }
  uint8_t& Mark(uint32_t at) { return SlabsOf(at).mark(InSlabs(at)); }
  uint8_t Mark(uint32_t at) const { return SlabsOf(at).mark(InSlabs(at)); }
  // Prefetches the values and the use data of a row.
  void Prefetch(uint32_t at) const {
    SlabsOf(at).PrefetchValues(InSlabs(at));
    SlabsOf(at).PrefetchUse(InSlabs(at));
  }

  // Number of rows. At(n) is the index of the n-th row, where full rows come first. Without brief
  // rows, At(n) is n.
  uint32_t size() const { return slabs_[0].size() + slabs_[1].size(); }
  uint32_t At(uint32_t n) const {
    const uint32_t full = slabs_[0].size();
    return n < full ? n : brief_bit_ | (n - full);
  }
  size_t bytes() const { return slabs_[0].bytes() + slabs_[1].bytes(); }
  // Memory of the rows in bytes, with RowMemoryBytes for each row.
  size_t row_bytes() const;

 private:
  const RowSlabs& SlabsOf(uint32_t at) const { return slabs_[brief(at) ? 1 : 0]; }
  RowSlabs& SlabsOf(uint32_t at) { return slabs_[brief(at) ? 1 : 0]; }
  uint32_t InSlabs(uint32_t at) const { return at & ~brief_bit_; }
  // Returns the index that the next added row will have.
  uint32_t Next(bool brief) const { return slabs(brief).size() | (brief ? brief_bit_ : 0); }

  const uint32_t brief_bit_;  // bit that marks indices of brief rows; 0: there are no brief rows
  std::array<RowSlabs, 2> slabs_;  // slabs of full rows, slabs of brief rows
  uint64_t moves_ = 0;
  RowIdIndex index_;
};

}  // namespace tandem::pserver
