// Rows of f32 by 64-bit id: for each bucket (common/tensor/row_buckets.h) an index
// (row_hash_table.h) from ids to places in slabs. A slab holds the floats of its rows side by side,
// so that a row of 16 is one line of the cache, and behind them of each its id and what is known
// about its use, and behind these a byte of each for others to mark it. A row stays where it is,
// but for Remove and Extend.
//
// Rows may have two lengths (row_accessor.h): those that are brief lie in slabs of their own, and
// their clicks are kept.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "common/base/prefetch.h"
#include "common/base/status.h"
#include "common/tensor/row_buckets.h"
#include "pserver/tables/row_hash_table.h"

namespace tandem {

// Versions are counted modulo 2^32.
struct RowUse {
  float show = 0, click = 0;  // what the accessor counts (row_accessor.h), faded
  uint32_t last = 0;          // the last version with a gradient
};

// Not thread-safe.
class RowStore {
 public:
  static constexpr uint32_t kNone = RowHashTable::kNone;

  // Rows of `floats` >= 1 values; brief ones of `brief` >= 1, which are none with 0.
  explicit RowStore(int64_t floats, int64_t brief = 0);
  // Bytes that such a row takes, with its part of the hash table where that is emptiest.
  static size_t BytesOfRow(int64_t floats);

  // Places of `ids`, kNone for those that are not there. Looks them up in groups, so that the
  // misses of the cache overlap.
  void Find(std::span<const uint64_t> ids, uint32_t* at) const;
  // The row's values are not initialised, its mark is 0. REQUIRES: it is not there.
  // RESOURCE_EXHAUSTED when there is no memory.
  StatusOr<uint32_t> Add(uint64_t id, bool brief = false);
  // The row, made like that where it is not there.
  StatusOr<uint32_t> FindOrAdd(uint64_t id, bool brief = false);
  // Makes a full row, not initialised, of a brief one, and gives its place; use and mark stay.
  StatusOr<uint32_t> Extend(uint32_t at);
  // ---- Many rows: Grow, then Insert of each, by threads each of which has buckets of its own.
  // Makes `more` rows at the places from Next(brief) on. RESOURCE_EXHAUSTED: none are made.
  Status Grow(size_t more, bool brief);
  // The row at `at` is that of `id`, which is not there yet. As behind Add.
  void Insert(uint64_t id, uint32_t at);
  // Brings what Insert looks at into the cache.
  void PrefetchIndex(uint64_t id) const { buckets_[RowBucket(id)].Prefetch(id); }
  // Makes room in the hash tables for rows that come now. Needed by nobody; saves growing them.
  void Expect(std::span<const uint64_t> ids);
  // The last row of its length moves to its place.
  void Remove(uint32_t at);
  // Rows stay where they are as long as this is the same.
  uint64_t moves() const { return moves_; }
  // Brings a row into the cache.
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

  // Rows, of which the n-th, full ones first, is At(n): where none are brief, n itself.
  uint32_t size() const { return full() + kinds_[1].size; }
  uint32_t full() const { return kinds_[0].size; }
  uint32_t At(uint32_t n) const { return n < full() ? n : brief_bit_ | (n - full()); }
  // The place of the next one that is added. Brief rows lie above all full ones.
  uint32_t Next(bool brief) const { return brief ? brief_bit_ | kinds_[1].size : full(); }
  size_t bytes() const;
  // ... of the rows alone, each as BytesOfRow.
  size_t row_bytes() const;
  // Ids of a bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const;

 private:
  struct Head {
    uint64_t id;
    float show;
    uint32_t last;
  };
  // Rows of one length.
  struct Kind {
    size_t row_bytes = 0;  // floats alone
    size_t heads_at = 0;   // in a slab
    size_t clicks_at = 0;
    size_t marks_at = 0;
    int slab_shift = 0;  // rows of a slab, as a power of two
    uint32_t slab_mask = 0;
    size_t slab_bytes = 0;
    uint32_t size = 0;
    std::vector<std::shared_ptr<std::byte>> slabs;  // those of a block share it
  };
  static Kind KindOf(int64_t floats, bool clicks);
  Status MakeRoom(Kind& kind) const;
  void SetNew(uint64_t id, uint32_t at);  // but for the values
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

  const uint32_t brief_bit_;   // of places; 0: there are no brief rows
  std::array<Kind, 2> kinds_;  // full, brief
  uint64_t moves_ = 0;
  std::vector<RowHashTable> buckets_;
};

}  // namespace tandem
