// Rows of f32 by 64-bit id: for each bucket (common/tensor/row_buckets.h) a hash table with open
// addressing, from ids to places in slabs. A slab holds the floats of its rows side by side, so
// that a row of 16 is one line of the cache, and behind them of each its id and what is known about
// its use, and behind these a byte of each for others to mark it. A row stays where it is, but for
// Remove.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"

namespace tandem {

// Versions are counted modulo 2^32.
struct RowUse {
  float score = 0;    // versions with a gradient for it, faded
  uint32_t last = 0;  // the last one
};

// Not thread-safe.
class RowStore {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Rows of `floats` >= 1 values.
  explicit RowStore(int64_t floats);
  // Bytes that such a row takes, with its part of the hash table where that is emptiest.
  static size_t BytesOfRow(int64_t floats);

  // Places of `ids`, kNone for those that are not there. Looks them up in groups, so that the
  // misses of the cache overlap.
  void Find(std::span<const uint64_t> ids, uint32_t* at) const;
  // The row's values are not initialised, its mark is 0. REQUIRES: it is not there.
  // RESOURCE_EXHAUSTED when there is no memory.
  StatusOr<uint32_t> Add(uint64_t id);
  // The row, made like that where it is not there.
  StatusOr<uint32_t> FindOrAdd(uint64_t id);
  // Makes room in the hash tables for rows that come now. Needed by nobody; saves growing them.
  void Expect(std::span<const uint64_t> ids);
  // The last row moves to its place.
  void Remove(uint32_t at);
  // Rows stay where they are as long as this is the same.
  uint64_t moves() const { return moves_; }
  // Brings a row into the cache.
  void Prefetch(uint32_t at) const {
    __builtin_prefetch(Row(at));
    if (row_bytes_ > 64) __builtin_prefetch(Row(at) + 16);
    __builtin_prefetch(&Use(at));
  }

  float* Row(uint32_t at) {
    return reinterpret_cast<float*>(Slab(at) + (at & slab_mask_) * row_bytes_);
  }
  const float* Row(uint32_t at) const { return const_cast<RowStore*>(this)->Row(at); }
  uint64_t Id(uint32_t at) const { return const_cast<RowStore*>(this)->HeadOf(at).id; }
  RowUse& Use(uint32_t at) { return HeadOf(at).use; }
  const RowUse& Use(uint32_t at) const { return const_cast<RowStore*>(this)->Use(at); }
  uint8_t& Mark(uint32_t at) {
    return reinterpret_cast<uint8_t*>(Slab(at) + marks_at_)[at & slab_mask_];
  }

  // Places are [0, size()).
  uint32_t size() const { return size_; }
  size_t bytes() const { return slabs_.size() * slab_bytes_; }
  // Ids of a bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const;

 private:
  struct Head {
    uint64_t id;
    RowUse use;
  };
  Status MakeRoom();
  std::byte* Slab(uint32_t at) { return slabs_[at >> slab_shift_].get(); }
  Head& HeadOf(uint32_t at) {
    return reinterpret_cast<Head*>(Slab(at) + heads_at_)[at & slab_mask_];
  }
  struct Free {
    void operator()(std::byte* slab) const { std::free(slab); }
  };

  const size_t row_bytes_;  // floats alone
  size_t heads_at_ = 0;     // in a slab
  size_t marks_at_ = 0;
  int slab_shift_ = 0;  // rows of a slab, as a power of two
  uint32_t slab_mask_ = 0;
  size_t slab_bytes_ = 0;
  uint32_t size_ = 0;
  uint64_t moves_ = 0;
  std::vector<std::unique_ptr<std::byte[], Free>> slabs_;
  std::vector<absl::flat_hash_map<uint64_t, uint32_t>> buckets_;
};

}  // namespace tandem
