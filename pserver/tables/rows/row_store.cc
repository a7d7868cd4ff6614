#include "pserver/tables/rows/row_store.h"

#include <algorithm>

namespace tandem::pserver {
namespace {

constexpr size_t kGroup = 128;  // number of rows that are looked up together
constexpr uint32_t kBriefBit = uint32_t{1} << 31;
static_assert(RowStore::kNone == UINT32_MAX, "kNone is above every row index");

}  // namespace

RowStore::RowStore(int64_t floats, int64_t brief)
    : brief_bit_(brief == 0 ? 0 : kBriefBit),
      slabs_{RowSlabs(floats, brief != 0, (brief == 0 ? kNone : kBriefBit) - 1),
             RowSlabs(brief, true, (brief == 0 ? kNone : kBriefBit) - 1)} {
  TD_REQUIRE(floats >= 1 && brief >= 0);
}

void RowStore::Find(std::span<const uint64_t> ids, uint32_t* at) const {
  for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, ids.size());
    for (size_t i = begin; i < end; ++i) index_.Prefetch(ids[i]);
    for (size_t i = begin; i < end; ++i) {
      at[i] = index_.Find(ids[i]);
      if (at[i] != kNone) SlabsOf(at[i]).PrefetchValues(InSlabs(at[i]));
    }
  }
}

StatusOr<uint32_t> RowStore::FindOrAdd(uint64_t id, bool brief) {
  TD_REQUIRE(!brief || brief_bit_ != 0);
  const uint32_t at = Next(brief);
  const uint32_t found = index_.FindOrAdd(id, at);
  if (found != at) return found;
  if (Status status = slabs_[brief ? 1 : 0].Grow(1); !status.ok()) {
    index_.Erase(id);
    return status;
  }
  SlabsOf(at).Init(InSlabs(at), id);
  return at;
}

StatusOr<uint32_t> RowStore::Grow(size_t more, bool brief) {
  TD_REQUIRE(!brief || brief_bit_ != 0);
  const uint32_t first = Next(brief);
  TD_RETURN_IF_ERROR(slabs_[brief ? 1 : 0].Grow(more));
  return first;
}

void RowStore::Insert(uint64_t id, uint32_t at) {
  const uint32_t inserted = index_.FindOrAdd(id, at);
  TD_REQUIRE(inserted == at);
  SlabsOf(at).Init(InSlabs(at), id);
}

StatusOr<uint32_t> RowStore::Add(uint64_t id, bool brief) {
  const uint32_t before = size();
  TD_ASSIGN_OR_RETURN(const uint32_t at, FindOrAdd(id, brief));
  CHECK(size() != before) << "row " << id << " is there already";
  return at;
}

StatusOr<uint32_t> RowStore::Extend(uint32_t at) {
  CHECK(brief(at));
  const uint64_t id = Id(at);
  const RowUse use = Use(at);
  const uint8_t mark = Mark(at);
  // Adds the full row before the brief row is removed, so that an error changes nothing.
  TD_ASSIGN_OR_RETURN(const uint32_t full, Grow(1, false));
  Remove(at);
  Insert(id, full);
  SetUse(full, use);
  Mark(full) = mark;
  return full;
}

void RowStore::Remove(uint32_t at) {
  RowSlabs& slabs = SlabsOf(at);
  const uint32_t row = InSlabs(at), last = slabs.size() - 1;
  index_.Erase(slabs.id(row));
  if (row != last) {
    slabs.Copy(last, row);
    index_.Set(slabs.id(row), at);
  }
  slabs.RemoveLast();
  ++moves_;
}

size_t RowStore::row_bytes() const {
  size_t sum = 0;
  for (const RowSlabs& slabs : slabs_) {
    sum += slabs.size() * RowMemoryBytes(static_cast<int64_t>(slabs.floats()));
  }
  return sum;
}

}  // namespace tandem::pserver
