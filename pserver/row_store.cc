#include "pserver/row_store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/tensor/device.h"
#include "common/tensor/row_buckets.h"

namespace tandem {
namespace {

constexpr size_t kSlabBytes = 1 << 20;
constexpr size_t kGroup = 16;  // rows looked up together
// Of absl::flat_hash_map: a pair and its control byte, at the lowest load between two growths
// (7/16).
constexpr size_t kIndexBytes = (sizeof(std::pair<uint64_t, uint32_t>) + 1) * 16 / 7 + 1;

}  // namespace

RowStore::RowStore(int64_t floats)
    : row_bytes_(static_cast<size_t>(floats) * sizeof(float)), buckets_(kRowBuckets) {
  while (((row_bytes_ + sizeof(Head) + 1) << (slab_shift_ + 1)) <= kSlabBytes) ++slab_shift_;
  slab_mask_ = (uint32_t{1} << slab_shift_) - 1;
  heads_at_ = ((row_bytes_ << slab_shift_) + alignof(Head) - 1) / alignof(Head) * alignof(Head);
  marks_at_ = heads_at_ + (sizeof(Head) << slab_shift_);
  slab_bytes_ = marks_at_ + (size_t{1} << slab_shift_);
}

size_t RowStore::BytesOfRow(int64_t floats) {
  return static_cast<size_t>(floats) * sizeof(float) + sizeof(Head) + 1 + kIndexBytes;
}

void RowStore::Find(std::span<const uint64_t> ids, uint32_t* at) const {
  for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, ids.size());
    for (size_t i = begin; i < end; ++i) buckets_[RowBucket(ids[i])].prefetch(ids[i]);
    for (size_t i = begin; i < end; ++i) {
      const auto& bucket = buckets_[RowBucket(ids[i])];
      const auto it = bucket.find(ids[i]);
      at[i] = it == bucket.end() ? kNone : it->second;
      if (at[i] == kNone) continue;
      // The first two lines of the cache: further ones the machine fetches by itself.
      __builtin_prefetch(Row(at[i]));
      if (row_bytes_ > 64) __builtin_prefetch(Row(at[i]) + 16);
    }
  }
}

StatusOr<uint32_t> RowStore::FindOrAdd(uint64_t id) {
  const auto [it, added] = buckets_[RowBucket(id)].try_emplace(id, size_);
  if (!added) return it->second;
  if (Status status = MakeRoom(); !status.ok()) {
    buckets_[RowBucket(id)].erase(it);
    return status;
  }
  const uint32_t at = size_++;
  HeadOf(at) = {id, {}};
  Mark(at) = 0;
  return at;
}

StatusOr<uint32_t> RowStore::Add(uint64_t id) {
  const uint32_t before = size_;
  TD_ASSIGN_OR_RETURN(const uint32_t at, FindOrAdd(id));
  CHECK(at == before) << "row " << id << " is there already";
  return at;
}

// A slab for one more row.
Status RowStore::MakeRoom() {
  if (size_ == kNone) return ResourceExhausted("a table has %d rows, and holds no more", size_);
  if ((size_ & slab_mask_) != 0) return OkStatus();
  const size_t align = Device::kAlignment;
  void* slab = std::aligned_alloc(align, (slab_bytes_ + align - 1) / align * align);
  if (slab == nullptr) return ResourceExhausted("no memory for %d bytes of rows", slab_bytes_);
  slabs_.emplace_back(static_cast<std::byte*>(slab));
  return OkStatus();
}

void RowStore::Expect(std::span<const uint64_t> ids) {
  std::vector<size_t> more(kRowBuckets, 0);
  for (const uint64_t id : ids) ++more[RowBucket(id)];
  for (int b = 0; b < kRowBuckets; ++b) {
    if (more[b] != 0) buckets_[b].reserve(buckets_[b].size() + more[b]);
  }
}

void RowStore::Remove(uint32_t at) {
  const uint32_t last = size_ - 1;
  buckets_[RowBucket(Id(at))].erase(Id(at));
  if (at != last) {
    std::memcpy(Row(at), Row(last), row_bytes_);
    HeadOf(at) = HeadOf(last);
    Mark(at) = Mark(last);
    buckets_[RowBucket(Id(at))][Id(at)] = at;
  }
  size_ = last;
  ++moves_;
  if ((size_ & slab_mask_) == 0) slabs_.pop_back();
}

std::vector<uint64_t> RowStore::IdsOf(int bucket) const {
  std::vector<uint64_t> ids;
  ids.reserve(buckets_[bucket].size());
  for (const auto& [id, at] : buckets_[bucket]) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace tandem
