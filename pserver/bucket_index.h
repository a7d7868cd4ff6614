// Where the rows of a bucket are, by id: open addressing with linear probing, id and place side by
// side in 12 bytes, so that a lookup reads one line of the cache, mostly, which Prefetch brings
// there. (absl::flat_hash_map reads two, and can be told to bring the first alone.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace tandem {

// Not thread-safe.
class BucketIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kEntryBytes = 12;
  // What a row takes where they are emptiest, right behind a growth.
  static constexpr size_t kBytesOfRow = kEntryBytes * 8 / 3;

  // The place of `id`; kNone: it is not there.
  uint32_t Find(uint64_t id) const {
    if (size_ == 0) return kNone;
    for (size_t i = Home(id);; i = (i + 1) & mask_) {
      const Entry& entry = entries_[i];
      if (entry.at == kNone || entry.id() == id) return entry.at;
    }
  }
  void Prefetch(uint64_t id) const {
    if (size_ != 0) __builtin_prefetch(&entries_[Home(id)]);
  }
  // The place of `id`, which is `at` from now on when it was not there. REQUIRES: `at` is not
  // kNone.
  uint32_t FindOrAdd(uint64_t id, uint32_t at);
  // REQUIRES: `id` is there.
  void Set(uint64_t id, uint32_t at) { entries_[Slot(id)].at = at; }
  void Erase(uint64_t id);
  // Room for so many in all.
  void Reserve(size_t size);
  size_t size() const { return size_; }
  // Calls `take(id, at)` with each, in no order.
  template <typename Take>
  void ForEach(const Take& take) const {
    for (size_t i = 0; size_ != 0 && i <= mask_; ++i) {
      if (entries_[i].at != kNone) take(entries_[i].id(), entries_[i].at);
    }
  }

 private:
  struct Entry {
    uint32_t at = kNone;
    uint32_t words[2] = {};  // of the id

    uint64_t id() const {
      uint64_t id;
      std::memcpy(&id, words, sizeof(id));
      return id;
    }
  };
  static_assert(sizeof(Entry) == kEntryBytes);
  static constexpr size_t kFewest = 8;  // entries, a power of two, of which 3/4 are taken at most

  size_t Home(uint64_t id) const { return Hash(id) & mask_; }
  // Other numbers in each process, so that nobody knows which ids meet.
  static uint64_t Hash(uint64_t id) {
    static const char kSeed = 0;
    const auto product = static_cast<unsigned __int128>(id ^ reinterpret_cast<uintptr_t>(&kSeed)) *
                         0x9ddfea08eb382d69;
    return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(product);
  }
  // Where it is.
  size_t Slot(uint64_t id) const;
  void Rehash(size_t entries);

  std::unique_ptr<Entry[]> entries_;
  uint32_t mask_ = 0;  // entries less one
  uint32_t size_ = 0;
};

}  // namespace tandem
