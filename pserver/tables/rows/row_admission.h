// Decides which rows of a table are created (TableRules::admit_count and admit_probability).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/tables/table_rules.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

// Counts the gradients of rows that wait for admission, that is, for their creation. Not
// thread-safe.
class RowAdmission {
 public:
  RowAdmission(const TableRules& rules, uint64_t seed, const std::string& table);

  // Returns whether a gradient of row `id` in `version` creates the row. Also counts the gradient.
  // REQUIRES: the row does not exist. The caller calls Admit once for each id and version.
  bool Admit(uint64_t id, uint32_t version);
  // Drops the waiting rows whose last gradient is more than `age_max` versions before `version`.
  void Forget(uint32_t version, uint32_t age_max);

  // Number of waiting rows. A waiting row had gradients, but was not admitted yet.
  size_t waiting() const { return count_; }
  // Returns the waiting rows of a row bucket (common/tables/row_buckets.h) by ascending ids. Their
  // ages are relative to `version`.
  std::vector<WaitingRow> OfBucket(int bucket, uint32_t version) const;
  // Returns the waiting row `id`, with its age relative to `version`; nullopt: the row does not
  // wait.
  std::optional<WaitingRow> Find(uint64_t id, uint32_t version) const;
  // Adds or replaces a waiting row. The age of `row` is relative to `version`.
  void Set(const WaitingRow& row, uint32_t version);
  // Drops the waiting rows of a row bucket.
  void Drop(int bucket);

 private:
  struct Seen {
    uint32_t versions = 0, last = 0;
  };
  const TableRules rules_;
  const uint64_t key_;
  std::vector<absl::flat_hash_map<uint64_t, Seen>> buckets_;
  size_t count_ = 0;  // number of waiting rows in all buckets
};

}  // namespace tandem::pserver
