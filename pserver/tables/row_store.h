// Stores f32 rows by 64-bit id. For each row bucket (common/tables/row_buckets.h), an index
// (row_hash_table.h) maps ids to row indices in slabs. A slab stores the floats of its rows
// contiguously, so a row of 16 floats is one cache line. After the floats come the id and use data
// of each row, then one mark byte per row for the caller. Rows move only in Remove and Extend.
//
// Rows may have two lengths (row_accessor.h). Brief rows are in separate slabs. If there are brief
// rows, the store also counts clicks.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "common/base/prefetch.h"
#include "common/base/status.h"
#include "common/tables/row_buckets.h"
#include "pserver/tables/row_hash_table.h"

namespace tandem::pserver {

// Versions are counted modulo 2^32.
struct RowUse {
  float show = 0, click = 0;  // counts of the accessor (row_accessor.h), after decay
  uint32_t last = 0;          // the last version with a gradient
};

// Row storage of one table. Not thread-safe.
class RowStore {
 public:
  static constexpr uint32_t kNone = RowHashTable::kNone;

  // Full rows have `floats` >= 1 values, brief rows `brief` >= 1 values. `brief` 0: there are no
  // brief rows.
  explicit RowStore(int64_t floats, int64_t brief = 0);
  // Bytes of a row of `floats` values, with its part of the hash table at the lowest load.
  static size_t BytesOfRow(int64_t floats);

  // Writes the indices of `ids` to `at`, kNone for absent rows. Looks up ids in groups, so that
  // cache misses overlap.
  void Find(std::span<const uint64_t> ids, uint32_t* at) const;
  // Adds a row with uninitialised values and mark 0. REQUIRES: the row is absent.
  // RESOURCE_EXHAUSTED: no memory.
  StatusOr<uint32_t> Add(uint64_t id, bool brief = false);
  // Returns the index of the row. Adds the row like Add if it is absent.
  StatusOr<uint32_t> FindOrAdd(uint64_t id, bool brief = false);
  // Replaces a brief row by a full row with uninitialised values and returns the new index. Use
  // data and mark are kept.
  StatusOr<uint32_t> Extend(uint32_t at);
  // ---- Adding many rows -------------------------------------------------------------------------
  // Call Grow, then Insert for each row. Several threads may call Insert if each has separate
  // buckets. Grow adds `more` rows at the indices from Next(brief). RESOURCE_EXHAUSTED: no memory,
  // no rows are added.
  Status Grow(size_t more, bool brief);
  // Assigns `id` to the row at index `at`. The row is then as after Add. REQUIRES: `id` is absent.
  void Insert(uint64_t id, uint32_t at);
  // Prefetches the part of the index that Insert reads.
  void PrefetchIndex(uint64_t id) const { buckets_[RowBucket(id)].Prefetch(id); }
  // Reserves room in the hash tables for new rows. Optional; avoids repeated growth.
  void Expect(std::span<const uint64_t> ids);
  // Removes a row. The last row of the same length moves to its index.
  void Remove(uint32_t at);
  // The indices of rows are valid while this number is unchanged.
  uint64_t moves() const { return moves_; }
  // Prefetches a row.
  void Prefetch(uint32_t at) const {
    PrefetchLine(Row(at));
    if (OfPlace(at).row_bytes > 64) PrefetchLine(Row(at) + 16);
    PrefetchLine(&HeadOf(at));
  }

  bool brief(uint32_t at) const { return (at & brief_bit_) != 0; }
  float* Row(uint32_t at) {
    return reinterpret_cast<float*>(Slab(at) + InSlab(at) * OfPlace(at).row_bytes);
  }
  const float* Row(uint32_t at) const { return const_cast<RowStore*>(this)->Row(at); }
  size_t floats(uint32_t at) const { return OfPlace(at).row_bytes / sizeof(float); }
  uint64_t Id(uint32_t at) const { return HeadOf(at).id; }
  RowUse Use(uint32_t at) const {
    const Head& head = HeadOf(at);
    return {head.show, brief_bit_ == 0 ? 0 : ClickOf(at), head.last};
  }
  void SetUse(uint32_t at, const RowUse& use) {
    Head& head = HeadOf(at);
    head.show = use.show;
    head.last = use.last;
    if (brief_bit_ != 0) ClickOf(at) = use.click;
  }
  uint8_t& Mark(uint32_t at) {
    return reinterpret_cast<uint8_t*>(Slab(at) + OfPlace(at).marks_at)[InSlab(at)];
  }
  uint8_t Mark(uint32_t at) const { return const_cast<RowStore*>(this)->Mark(at); }

  // Number of rows. At(n) is the index of the n-th row, full rows first; without brief rows, At(n)
  // is n.
  uint32_t size() const { return full() + kinds_[1].size; }
  uint32_t full() const { return kinds_[0].size; }
  uint32_t At(uint32_t n) const { return n < full() ? n : brief_bit_ | (n - full()); }
  // The index of the next row to be added. Indices of brief rows are above those of all full rows.
  uint32_t Next(bool brief) const { return brief ? brief_bit_ | kinds_[1].size : full(); }
  size_t bytes() const;
  // Bytes of the rows alone, each as in BytesOfRow.
  size_t row_bytes() const;
  // The ids of a bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const;

 private:
  struct Head {
    uint64_t id;
    float show;
    uint32_t last;
  };
  // The rows of one length.
  struct Kind {
    size_t row_bytes = 0;  // floats only
    size_t heads_at = 0;   // offset in a slab
    size_t clicks_at = 0;
    size_t marks_at = 0;
    int slab_shift = 0;  // rows per slab, as a power of two
    uint32_t slab_mask = 0;
    size_t slab_bytes = 0;
    uint32_t size = 0;
    std::vector<std::shared_ptr<std::byte>> slabs;  // slabs of a block share its ownership
  };
  static Kind KindOf(int64_t floats, bool clicks);
  Status MakeRoom(Kind& kind) const;
  void SetNew(uint64_t id, uint32_t at);  // initialises everything except the values
  const Kind& OfPlace(uint32_t at) const { return brief(at) ? kinds_[1] : kinds_[0]; }
  Kind& OfPlace(uint32_t at) { return brief(at) ? kinds_[1] : kinds_[0]; }
  std::byte* Slab(uint32_t at) const {
    const Kind& kind = OfPlace(at);
    return kind.slabs[(at & ~brief_bit_) >> kind.slab_shift].get();
  }
  size_t InSlab(uint32_t at) const { return at & OfPlace(at).slab_mask; }
  Head& HeadOf(uint32_t at) const {
    return reinterpret_cast<Head*>(Slab(at) + OfPlace(at).heads_at)[InSlab(at)];
  }
  float& ClickOf(uint32_t at) const {
    return reinterpret_cast<float*>(Slab(at) + OfPlace(at).clicks_at)[InSlab(at)];
  }

  const uint32_t brief_bit_;   // of indices; 0: there are no brief rows
  std::array<Kind, 2> kinds_;  // full, brief
  uint64_t moves_ = 0;
  std::vector<RowHashTable> buckets_;
};

}  // namespace tandem::pserver
