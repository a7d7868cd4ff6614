#include "pserver/tables/row_store.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/huge_pages.h"
#include "common/tensor/device.h"

namespace tandem::pserver {
namespace {

constexpr size_t kSlabBytes = 1 << 20;
// The first slabs are allocated one by one, because a table of few rows needs no huge pages. Later
// slabs are contiguous in blocks of kSlabsOfBlock.
constexpr size_t kSlabsOfBlock = 16;
constexpr size_t kGroup = 128;  // rows looked up together

}  // namespace

RowStore::RowStore(int64_t floats, int64_t brief)
    : brief_bit_(brief == 0 ? 0 : uint32_t{1} << 31),
      kinds_{KindOf(floats, brief != 0), KindOf(brief, true)},
      buckets_(kRowBuckets) {}

RowStore::Kind RowStore::KindOf(int64_t floats, bool clicks) {
  Kind kind;
  kind.row_bytes = static_cast<size_t>(floats) * sizeof(float);
  const size_t click_bytes = clicks ? sizeof(float) : 0;
  const size_t bytes = kind.row_bytes + sizeof(Head) + click_bytes + 1;
  while ((bytes << (kind.slab_shift + 1)) <= kSlabBytes) ++kind.slab_shift;
  kind.slab_mask = (uint32_t{1} << kind.slab_shift) - 1;
  kind.heads_at =
      ((kind.row_bytes << kind.slab_shift) + alignof(Head) - 1) / alignof(Head) * alignof(Head);
  kind.clicks_at = kind.heads_at + (sizeof(Head) << kind.slab_shift);
  kind.marks_at = kind.clicks_at + (click_bytes << kind.slab_shift);
  constexpr size_t kAlign = Device::kAlignment;
  kind.slab_bytes = (kind.marks_at + (size_t{1} << kind.slab_shift) + kAlign - 1) / kAlign * kAlign;
  return kind;
}

size_t RowStore::BytesOfRow(int64_t floats) {
  return static_cast<size_t>(floats) * sizeof(float) + sizeof(Head) + 1 + RowHashTable::kBytesOfRow;
}

void RowStore::Find(std::span<const uint64_t> ids, uint32_t* at) const {
  for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, ids.size());
    for (size_t i = begin; i < end; ++i) PrefetchIndex(ids[i]);
    for (size_t i = begin; i < end; ++i) {
      at[i] = buckets_[RowBucket(ids[i])].Find(ids[i]);
      if (at[i] == kNone) continue;
      // The first two cache lines; the hardware prefetches further ones.
      PrefetchLine(Row(at[i]));
      if (OfPlace(at[i]).row_bytes > 64) PrefetchLine(Row(at[i]) + 16);
    }
  }
}

StatusOr<uint32_t> RowStore::FindOrAdd(uint64_t id, bool brief) {
  Kind& kind = kinds_[brief ? 1 : 0];
  const uint32_t at = Next(brief);
  const uint32_t found = buckets_[RowBucket(id)].FindOrAdd(id, at);
  if (found != at) return found;
  if (Status status = MakeRoom(kind); !status.ok()) {
    buckets_[RowBucket(id)].Erase(id);
    return status;
  }
  ++kind.size;
  SetNew(id, at);
  return at;
}

void RowStore::SetNew(uint64_t id, uint32_t at) {
  HeadOf(at) = {id, 0, 0};
  SetUse(at, {});
  Mark(at) = 0;
}

Status RowStore::Grow(size_t more, bool brief) {
  Kind& kind = kinds_[brief ? 1 : 0];
  const uint32_t before = kind.size;
  for (size_t i = 0; i < more; ++i) {
    if (Status status = MakeRoom(kind); !status.ok()) {
      kind.size = before;
      return status;
    }
    ++kind.size;
  }
  return OkStatus();
}

void RowStore::Insert(uint64_t id, uint32_t at) {
  buckets_[RowBucket(id)].FindOrAdd(id, at);
  SetNew(id, at);
}

StatusOr<uint32_t> RowStore::Add(uint64_t id, bool brief) {
  const uint32_t before = size();
  TD_ASSIGN_OR_RETURN(const uint32_t at, FindOrAdd(id, brief));
  CHECK(size() != before) << "row " << id << " is there already";
  return at;
}

StatusOr<uint32_t> RowStore::Extend(uint32_t at) {
  CHECK(brief(at));
  TD_RETURN_IF_ERROR(MakeRoom(kinds_[0]));
  const uint64_t id = Id(at);
  const RowUse use = Use(at);
  const uint8_t mark = Mark(at);
  Remove(at);
  TD_ASSIGN_OR_RETURN(const uint32_t full, Add(id));
  SetUse(full, use);
  Mark(full) = mark;
  return full;
}

// Allocates a slab if there is no room for one more row.
Status RowStore::MakeRoom(Kind& kind) const {
  const uint32_t most = (brief_bit_ == 0 ? kNone : brief_bit_) - 1;
  if (kind.size == most) {
    return ResourceExhausted("a table has %d rows, which is the maximum [TD2116]", kind.size);
  }
  if ((kind.size >> kind.slab_shift) < kind.slabs.size()) return OkStatus();
  const size_t slab = kind.slabs.size();
  if (slab > kSlabsOfBlock && slab % kSlabsOfBlock != 0) {
    kind.slabs.emplace_back(kind.slabs.back(), kind.slabs.back().get() + kind.slab_bytes);
    return OkStatus();
  }
  const size_t bytes = (slab < kSlabsOfBlock ? 1 : kSlabsOfBlock) * kind.slab_bytes;
  void* block = AllocatePages(bytes, Device::kAlignment);
  if (block == nullptr)
    return ResourceExhausted("cannot allocate %d bytes for table rows: out of memory [TD2116]",
                             bytes);
  kind.slabs.emplace_back(static_cast<std::byte*>(block), &std::free);
  return OkStatus();
}

void RowStore::Expect(std::span<const uint64_t> ids) {
  std::vector<size_t> more(kRowBuckets, 0);
  for (const uint64_t id : ids) ++more[RowBucket(id)];
  for (int b = 0; b < kRowBuckets; ++b) {
    if (more[b] != 0) buckets_[b].Reserve(buckets_[b].size() + more[b]);
  }
}

void RowStore::Remove(uint32_t at) {
  Kind& kind = OfPlace(at);
  const uint32_t last = (kind.size - 1) | (at & brief_bit_);
  buckets_[RowBucket(Id(at))].Erase(Id(at));
  if (at != last) {
    std::memcpy(Row(at), Row(last), kind.row_bytes);
    HeadOf(at) = HeadOf(last);
    SetUse(at, Use(last));
    Mark(at) = Mark(last);
    buckets_[RowBucket(Id(at))].Set(Id(at), at);
  }
  --kind.size;
  ++moves_;
  if ((kind.size & kind.slab_mask) == 0) kind.slabs.resize(kind.size >> kind.slab_shift);
}

size_t RowStore::bytes() const {
  size_t sum = 0;
  for (const Kind& kind : kinds_) sum += kind.slabs.size() * kind.slab_bytes;
  return sum;
}

size_t RowStore::row_bytes() const {
  size_t sum = 0;
  for (const Kind& kind : kinds_) {
    sum += kind.size * BytesOfRow(static_cast<int64_t>(kind.row_bytes / sizeof(float)));
  }
  return sum;
}

std::vector<uint64_t> RowStore::IdsOf(int bucket) const {
  std::vector<uint64_t> ids;
  ids.reserve(buckets_[bucket].size());
  buckets_[bucket].ForEach([&](uint64_t id, uint32_t) { ids.push_back(id); });
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace tandem::pserver
