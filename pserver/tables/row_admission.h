// Which rows of a table come into being (admit_count and admit_probability of TableRules).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/tensor/table_rules.h"
#include "pserver/state/shard_types.h"

namespace tandem {

// Not thread-safe.
class RowAdmission {
 public:
  RowAdmission(const TableRules& rules, uint64_t seed, const std::string& table);

  // Whether `version`, which has a gradient for row `id`, makes it. REQUIRES: the row is not there;
  // once for each id and version.
  bool Admit(uint64_t id, uint32_t version);
  // Forgets those without a gradient for more than `ttl` versions.
  void Forget(uint32_t version, uint32_t ttl);

  // Rows that had gradients, but too few.
  size_t waiting() const { return count_; }
  // Those of a bucket (common/tensor/row_buckets.h), by ascending ids, as they are at `version`.
  std::vector<WaitingRow> OfBucket(int bucket, uint32_t version) const;
  // One of them; nullopt: it does not wait.
  std::optional<WaitingRow> Find(uint64_t id, uint32_t version) const;
  // Adds or replaces one.
  void Set(const WaitingRow& row, uint32_t version);
  // Forgets those of a bucket.
  void Drop(int bucket);

 private:
  struct Seen {
    uint32_t versions = 0, last = 0;
  };
  const TableRules rules_;
  const uint64_t key_;
  std::vector<absl::flat_hash_map<uint64_t, Seen>> buckets_;
  size_t count_ = 0;  // in all of them
};

}  // namespace tandem
