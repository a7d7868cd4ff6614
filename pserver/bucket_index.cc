#include "pserver/bucket_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/check.h"

namespace tandem {

uint32_t BucketIndex::FindOrAdd(uint64_t id, uint32_t at) {
  if (entries_ == nullptr || 4 * (size_t{size_} + 1) > 3 * (size_t{mask_} + 1))
    Reserve(size_t{size_} + 1);
  size_t i = Home(id);
  for (; entries_[i].at != kNone; i = (i + 1) & mask_) {
    if (entries_[i].id() == id) return entries_[i].at;
  }
  entries_[i].at = at;
  std::memcpy(entries_[i].words, &id, sizeof(id));
  ++size_;
  return at;
}

size_t BucketIndex::Slot(uint64_t id) const {
  CHECK_NE(size_, 0u);
  for (size_t i = Home(id);; i = (i + 1) & mask_) {
    CHECK_NE(entries_[i].at, kNone) << "row " << id;
    if (entries_[i].id() == id) return i;
  }
}

void BucketIndex::Erase(uint64_t id) {
  size_t hole = Slot(id);
  // What lies behind it and would not be found beyond a hole moves into it.
  for (size_t i = (hole + 1) & mask_; entries_[i].at != kNone; i = (i + 1) & mask_) {
    const size_t home = Home(entries_[i].id());
    if (((i - home) & mask_) < ((i - hole) & mask_)) continue;
    entries_[hole] = entries_[i];
    hole = i;
  }
  entries_[hole].at = kNone;
  --size_;
}

void BucketIndex::Reserve(size_t size) {
  const size_t entries = std::max(kFewest, std::bit_ceil((4 * size + 2) / 3));
  if (entries_ == nullptr || entries > size_t{mask_} + 1) Rehash(entries);
}

void BucketIndex::Rehash(size_t entries) {
  auto before = std::exchange(entries_, std::make_unique<Entry[]>(entries));
  const size_t count = before == nullptr ? 0 : size_t{mask_} + 1;
  mask_ = static_cast<uint32_t>(entries - 1);
  for (size_t from = 0; from < count; ++from) {
    if (before[from].at == kNone) continue;
    size_t i = Home(before[from].id());
    while (entries_[i].at != kNone) i = (i + 1) & mask_;
    entries_[i] = before[from];
  }
}

}  // namespace tandem
