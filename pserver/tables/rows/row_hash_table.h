// A hash table from row ids to row indices for one row bucket. The table consists of cache lines,
// each with up to five ids and their indices. The hash of an id selects the home line of the id. If
// the home line is full, the id is in the next line that has room. A lookup therefore usually reads
// one line, which Prefetch can load. Within a line, a lookup has no branch that depends on the
// position of the id. (absl::flat_hash_map reads two lines, and can prefetch only the first.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/base/prefetch.h"

namespace tandem::pserver {

// Maps row ids to indices. Not thread-safe.
class RowHashTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Bytes per row at the lowest load: directly after growth, two rows use one line.
  static constexpr size_t kBytesOfRow = 32;

  // Returns the index of `id`; kNone: `id` is absent.
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
  // Returns the index of `id`. If `id` is absent, adds it with index `at`. REQUIRES: `at` is not
  // kNone.
  uint32_t FindOrAdd(uint64_t id, uint32_t at);
  // Changes the index of `id`. REQUIRES: `id` is present.
  void Set(uint64_t id, uint32_t at);
  void Erase(uint64_t id);
  // Makes room for `size` rows in total, including the present rows.
  void Reserve(size_t size);
  size_t size() const { return size_; }
  // Calls `take(id, at)` for each row, in no defined order.
  template <typename Take>
  void ForEach(const Take& take) const {
    for (size_t i = 0; i < count_; ++i) {
      for (size_t j = 0; j < lines_[i].size(); ++j) take(lines_[i].ids[j], lines_[i].at[j]);
    }
  }

 private:
  static constexpr size_t kEntries = 5;  // number of entries per line
  // The entries of a line are filled from the front. An empty entry has the index kNone.
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
    void Remove(size_t entry);  // moves the last entry to the removed position
  };
  static_assert(sizeof(Line) == 64);
  struct Entry {
    size_t line, entry;
  };

  // Returns the home line of `id`, computed from the upper half of the hash. The number of lines
  // need not be a power of two (Lemire, "Fast random integer generation in an interval", 2019).
  size_t Home(uint64_t id) const { return (Hash(id) >> 32) * count_ >> 32; }
  size_t Next(size_t line) const { return line + 1 == count_ ? 0 : line + 1; }
  // Number of steps from line `from` forward to line `to`. The first line follows the last line.
  size_t Ahead(size_t from, size_t to) const { return to >= from ? to - from : to + count_ - from; }
  // The hash function differs in each process, so that clients cannot choose ids that collide.
  static uint64_t Hash(uint64_t id) {
    static const char kSeed = 0;
    const auto product = static_cast<unsigned __int128>(id ^ reinterpret_cast<uintptr_t>(&kSeed)) *
                         0x9ddfea08eb382d69;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  // Finds the entry of `id`. REQUIRES: `id` is present.
  Entry EntryOf(uint64_t id) const;
  // Adds `id`. REQUIRES: `id` is absent, and there is room.
  void Insert(uint64_t id, uint32_t at);
  void Rehash(size_t lines);

  std::unique_ptr<Line[]> lines_;
  uint32_t count_ = 0;  // number of lines
  uint32_t size_ = 0;   // number of rows
};

}  // namespace tandem::pserver
