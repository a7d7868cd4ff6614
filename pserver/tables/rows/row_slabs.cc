#include "pserver/tables/rows/row_slabs.h"

#include <cstdlib>
#include <cstring>

#include "common/os/huge_pages.h"
#include "common/tensor/device.h"

namespace tandem::pserver {
namespace {

constexpr size_t kSlabBytes = 1 << 20;
// Number of slabs per block of memory. The first slabs are allocated one by one, because a table
// with few rows needs no huge pages. Later slabs are allocated in blocks.
constexpr size_t kSlabsOfBlock = 16;

}  // namespace

RowSlabs::RowSlabs(int64_t floats, bool clicks, uint32_t rows_max)
    : clicks_(clicks),
      rows_max_(rows_max),
      row_bytes_(static_cast<size_t>(floats) * sizeof(float)) {
  TD_REQUIRE(floats >= 0);
  const size_t click_bytes = clicks ? sizeof(float) : 0;
  const size_t bytes = row_bytes_ + sizeof(Head) + click_bytes + 1;
  while ((bytes << (slab_shift_ + 1)) <= kSlabBytes) ++slab_shift_;
  slab_mask_ = (uint32_t{1} << slab_shift_) - 1;
  heads_at_ = ((row_bytes_ << slab_shift_) + alignof(Head) - 1) / alignof(Head) * alignof(Head);
  clicks_at_ = heads_at_ + (sizeof(Head) << slab_shift_);
  marks_at_ = clicks_at_ + (click_bytes << slab_shift_);
  constexpr size_t kAlign = Device::kAlignment;
  slab_bytes_ = (marks_at_ + (size_t{1} << slab_shift_) + kAlign - 1) / kAlign * kAlign;
}

Status RowSlabs::Grow(size_t more) {
  const uint32_t before = size_;
  for (size_t i = 0; i < more; ++i) {
    if (Status status = MakeRoom(); !status.ok()) {
      size_ = before;
      return status;
    }
    ++size_;
  }
  return OkStatus();
}

Status RowSlabs::MakeRoom() {
  if (size_ == rows_max_) {
    return ResourceExhausted("a table has %d rows, which is the maximum [TD2116]", size_);
  }
  if ((size_ >> slab_shift_) < slabs_.size()) return OkStatus();
  const size_t slab = slabs_.size();
  if (slab > kSlabsOfBlock && slab % kSlabsOfBlock != 0) {
    slabs_.emplace_back(slabs_.back(), slabs_.back().get() + slab_bytes_);
    return OkStatus();
  }
  const size_t bytes = (slab < kSlabsOfBlock ? 1 : kSlabsOfBlock) * slab_bytes_;
  void* block = AllocatePages(bytes, Device::kAlignment);
  if (block == nullptr)
    return ResourceExhausted("cannot allocate %d bytes for table rows: out of memory [TD2116]",
                             bytes);
  slabs_.emplace_back(static_cast<std::byte*>(block), &std::free);
  return OkStatus();
}

void RowSlabs::Copy(uint32_t from, uint32_t to) {
  TD_REQUIRE(from != to);
  std::memcpy(values(to), values(from), row_bytes_);
  head(to) = head(from);
  SetUse(to, Use(from));
  mark(to) = mark(from);
}

void RowSlabs::RemoveLast() {
  TD_REQUIRE(size_ > 0);
  --size_;
  if ((size_ & slab_mask_) == 0) slabs_.resize(size_ >> slab_shift_);
}

}  // namespace tandem::pserver
