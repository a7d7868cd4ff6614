// Where the rows of a bucket are, by id: a hash table of lines of the cache. A line has up to five
// ids and their places; an id lies in the line that its hash names, or, where that is full, in the
// next one that is not. So a lookup reads one line, mostly, which Prefetch brings there, and has no
// branch that depends on where in it the id lies. (absl::flat_hash_map reads two lines, and can be
// told to bring the first alone.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/prefetch.h"

namespace tandem {

// Not thread-safe.
class RowHashTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  // What a row takes where they are emptiest, right behind a growth: a line for two of them.
  static constexpr size_t kBytesOfRow = 32;

  // The place of `id`; kNone: it is not there.
  uint32_t Find(uint64_t id) const {
    if (size_ == 0) return kNone;
    for (size_t i = Home(id);; i = Next(i)) {
      const uint32_t at = lines_[i].Find(id);
      if (at != kNone || !lines_[i].full()) return at;
    }
  }
  void Prefetch(uint64_t id) const {
    if (size_ != 0) PrefetchLine(&lines_[Home(id)]);
  }
  // The place of `id`, which is `at` from now on when it was not there. REQUIRES: `at` is not
  // kNone.
  uint32_t FindOrAdd(uint64_t id, uint32_t at);
  // REQUIRES: `id` is there.
  void Set(uint64_t id, uint32_t at);
  void Erase(uint64_t id);
  // Room for so many in all.
  void Reserve(size_t size);
  size_t size() const { return size_; }
  // Calls `take(id, at)` with each, in no order.
  template <typename Take>
  void ForEach(const Take& take) const {
    for (size_t i = 0; i < count_; ++i) {
      for (size_t j = 0; j < lines_[i].size(); ++j) take(lines_[i].ids[j], lines_[i].at[j]);
    }
  }

 private:
  static constexpr size_t kEntries = 5;  // of a line
  // Filled from its begin; `at` is kNone where there is nothing.
  struct alignas(64) Line {
    std::array<uint64_t, kEntries> ids{};
    std::array<uint32_t, kEntries> at = {kNone, kNone, kNone, kNone, kNone};

    uint32_t Find(uint64_t id) const {
      uint32_t found = kNone;
#pragma GCC unroll 5
      for (size_t j = 0; j < kEntries; ++j) found &= at[j] | (uint32_t{ids[j] == id} - 1);
      return found;
    }
    bool full() const { return at.back() != kNone; }
    size_t size() const;
    void Add(uint64_t id, uint32_t place);
    void Remove(size_t entry);  // the last one takes its place
  };
  static_assert(sizeof(Line) == 64);
  struct Entry {
    size_t line, entry;
  };

  // By the upper half of the hash, of a number of lines that need not be a power of two
  // (Lemire, "Fast random integer generation in an interval", 2019).
  size_t Home(uint64_t id) const { return (Hash(id) >> 32) * count_ >> 32; }
  size_t Next(size_t line) const { return line + 1 == count_ ? 0 : line + 1; }
  // Lines from `from` to `to`, forwards.
  size_t Ahead(size_t from, size_t to) const { return to >= from ? to - from : to + count_ - from; }
  // Other numbers in each process, so that nobody knows which ids meet.
  static uint64_t Hash(uint64_t id) {
    static const char kSeed = 0;
    const auto product = static_cast<unsigned __int128>(id ^ reinterpret_cast<uintptr_t>(&kSeed)) *
                         0x9ddfea08eb382d69;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  // Where `id` is, which is there.
  Entry EntryOf(uint64_t id) const;
  // REQUIRES: it is not there, and there is room.
  void Insert(uint64_t id, uint32_t at);
  void Rehash(size_t lines);

  std::unique_ptr<Line[]> lines_;
  uint32_t count_ = 0;  // lines
  uint32_t size_ = 0;   // rows
};

}  // namespace tandem
