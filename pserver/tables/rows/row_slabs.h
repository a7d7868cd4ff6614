// Memory for rows of one length, in slabs. A slab stores the floats of its rows contiguously, so a
// row of 16 floats is one cache line. After the floats, a slab stores for each row its id, its use
// data (RowUse) and a mark byte. The mark of a new row is 0; the caller defines all other values.
// The rows have the indices [0, size()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/prefetch.h"
#include "common/base/require.h"
#include "common/base/status.h"

namespace tandem::pserver {

// Use data of a row. Versions are counted modulo 2^32.
struct RowUse {
  float show = 0, click = 0;  // numbers of shows and clicks (row_accessor.h), after decay
  uint32_t last = 0;          // last version in which the row had a gradient
};

// Rows of one length. Not thread-safe.
class RowSlabs {
 private:
  struct Head {
    uint64_t id;
    float show;
    uint32_t last;
  };

 public:
  // `floats`: number of values of a row. `clicks`: whether rows store RowUse::click. `rows_max`:
  // maximum number of rows.
  RowSlabs(int64_t floats, bool clicks, uint32_t rows_max);
  // Bytes of a row of `floats` values, without RowUse::click.
  static constexpr size_t BytesOfRow(int64_t floats) {
    return static_cast<size_t>(floats) * sizeof(float) + sizeof(Head) + 1;
  }

  // Adds `more` uninitialised rows. RESOURCE_EXHAUSTED: there is no memory, or the rows would
  // exceed `rows_max`. On an error, no row is added.
  Status Grow(size_t more);
  // Sets the id of a row, and resets its use data and its mark.
  void Init(uint32_t row, uint64_t id) {
    head(row) = {id, 0, 0};
    SetUse(row, {});
    mark(row) = 0;
  }
  // Copies row `from`, with its id, use data and mark, to row `to`. REQUIRES: `from` and `to`
  // differ.
  void Copy(uint32_t from, uint32_t to);
  // Removes the last row. Frees the slab of the row if the slab is then empty. REQUIRES: size() >
  // 0.
  void RemoveLast();

  uint32_t size() const { return size_; }
  size_t floats() const { return row_bytes_ / sizeof(float); }  // number of floats in a row
  size_t bytes() const { return slabs_.size() * slab_bytes_; }  // bytes of all slabs
  float* values(uint32_t row) const {
    return reinterpret_cast<float*>(Slab(row) + InSlab(row) * row_bytes_);
  }
  uint64_t id(uint32_t row) const { return head(row).id; }
  RowUse Use(uint32_t row) const {
    const Head& h = head(row);
    return {h.show, clicks_ ? click(row) : 0, h.last};
  }
  void SetUse(uint32_t row, const RowUse& use) {
    Head& h = head(row);
    h.show = use.show;
    h.last = use.last;
    if (clicks_) click(row) = use.click;
  }
  uint8_t& mark(uint32_t row) const {
    return reinterpret_cast<uint8_t*>(Slab(row) + marks_at_)[InSlab(row)];
  }
  // Prefetches the first two cache lines of the row's values. The hardware prefetches further
  // lines.
  void PrefetchValues(uint32_t row) const {
    PrefetchLine(values(row));
    if (row_bytes_ > 64) PrefetchLine(values(row) + 16);
  }
  void PrefetchUse(uint32_t row) const { PrefetchLine(&head(row)); }

 private:
  Status MakeRoom();  // allocates a slab if the last slab is full
  std::byte* Slab(uint32_t row) const {
    TD_REQUIRE(row < size_);
    return slabs_[row >> slab_shift_].get();
  }
  size_t InSlab(uint32_t row) const { return row & slab_mask_; }
  Head& head(uint32_t row) const {
    return reinterpret_cast<Head*>(Slab(row) + heads_at_)[InSlab(row)];
  }
  float& click(uint32_t row) const {
    return reinterpret_cast<float*>(Slab(row) + clicks_at_)[InSlab(row)];
  }

  const bool clicks_;
  const uint32_t rows_max_;
  const size_t row_bytes_;                              // bytes of the floats of a row
  int slab_shift_ = 0;                                  // log2 of the number of rows per slab
  uint32_t slab_mask_ = 0;                              // number of rows per slab, minus 1
  size_t heads_at_ = 0, clicks_at_ = 0, marks_at_ = 0;  // offsets of the parts of a slab in bytes
  size_t slab_bytes_ = 0;
  uint32_t size_ = 0;
  // A memory block has one or more slabs, which share the ownership of the block.
  std::vector<std::shared_ptr<std::byte>> slabs_;
};

}  // namespace tandem::pserver
