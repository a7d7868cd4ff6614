#include "pserver/tables/rows/row_admission.h"

#include <algorithm>

#include "common/base/rng.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {

RowAdmission::RowAdmission(const TableRules& rules, uint64_t seed, const std::string& table)
    : rules_(rules), key_(StreamKey(seed, "admit:" + table)), buckets_(kRowBuckets) {}

bool RowAdmission::Admit(uint64_t id, uint32_t version) {
  auto& waiting = buckets_[static_cast<size_t>(RowBucket(id))];
  if (rules_.admit_count > 1) {
    const auto [row, added] = waiting.try_emplace(id);
    count_ += added;
    Seen& seen = row->second;
    seen.last = version;
    if (seen.versions < rules_.admit_count) ++seen.versions;
    if (seen.versions < rules_.admit_count) return false;
  }
  if (rules_.admit_probability < 1) {
    const uint64_t of_version = key_ ^ (uint64_t{version} * 0x9e3779b97f4a7c15);
    if (UniformAt(of_version, id) >= rules_.admit_probability) return false;
  }
  count_ -= waiting.erase(id);
  return true;
}

void RowAdmission::Forget(uint32_t version, uint32_t age_max) {
  for (auto& waiting : buckets_) {
    count_ -= waiting.size();
    absl::erase_if(waiting, [=](const auto& row) { return version - row.second.last > age_max; });
    count_ += waiting.size();
  }
}

std::vector<WaitingRow> RowAdmission::OfBucket(int bucket, uint32_t version) const {
  std::vector<WaitingRow> rows;
  for (const auto& [id, seen] : buckets_[static_cast<size_t>(bucket)]) {
    rows.push_back({id, seen.versions, version - seen.last});
  }
  std::sort(rows.begin(), rows.end(),
            [](const WaitingRow& a, const WaitingRow& b) { return a.id < b.id; });
  return rows;
}

std::optional<WaitingRow> RowAdmission::Find(uint64_t id, uint32_t version) const {
  const auto& waiting = buckets_[static_cast<size_t>(RowBucket(id))];
  const auto it = waiting.find(id);
  if (it == waiting.end()) return std::nullopt;
  return WaitingRow{id, it->second.versions, version - it->second.last};
}

void RowAdmission::Set(const WaitingRow& row, uint32_t version) {
  auto& waiting = buckets_[static_cast<size_t>(RowBucket(row.id))];
  count_ += waiting.insert_or_assign(row.id, Seen{row.seen, version - row.age}).second;
}

void RowAdmission::Drop(int bucket) {
  auto& waiting = buckets_[static_cast<size_t>(bucket)];
  count_ -= waiting.size();
  waiting.clear();
}

}  // namespace tandem::pserver
