// Decides which rows of a table are created (admit_count and admit_probability of TableRules).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/tables/table_rules.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

// Counts the gradients of rows that wait for admission. Not thread-safe.
class RowAdmission {
 public:
  RowAdmission(const TableRules& rules, uint64_t seed, const std::string& table);

  // Whether row `id` is created by its gradient in `version`. REQUIRES: the row does not exist;
  // call once for each id and version.
  bool Admit(uint64_t id, uint32_t version);
  // Drops waiting rows without a gradient for more than `ttl` versions.
  void Forget(uint32_t version, uint32_t ttl);

  // Number of rows that had gradients, but not enough to be admitted.
  size_t waiting() const { return count_; }
  // The waiting rows of a row bucket (common/tables/row_buckets.h) by ascending ids, with ages as
  // of `version`.
  std::vector<WaitingRow> OfBucket(int bucket, uint32_t version) const;
  // The waiting row `id`; nullopt: it does not wait.
  std::optional<WaitingRow> Find(uint64_t id, uint32_t version) const;
  // Adds or replaces a waiting row.
  void Set(const WaitingRow& row, uint32_t version);
  // Drops the waiting rows of a bucket.
  void Drop(int bucket);

 private:
  struct Seen {
    uint32_t versions = 0, last = 0;
  };
  const TableRules rules_;
  const uint64_t key_;
  std::vector<absl::flat_hash_map<uint64_t, Seen>> buckets_;
  size_t count_ = 0;  // in all buckets
};

}  // namespace tandem::pserver
