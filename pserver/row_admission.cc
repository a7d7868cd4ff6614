#include "pserver/row_admission.h"

#include <algorithm>

#include "common/base/rng.h"
#include "common/tensor/row_buckets.h"

namespace tandem {

RowAdmission::RowAdmission(const TableRules& rules, uint64_t seed, const std::string& table)
    : rules_(rules), key_(StreamKey(seed, "admit:" + table)) {}

bool RowAdmission::Admit(uint64_t id, uint32_t version) {
  if (rules_.admit_count > 1) {
    Seen& seen = waiting_[id];
    seen.last = version;
    if (seen.versions < rules_.admit_count) ++seen.versions;
    if (seen.versions < rules_.admit_count) return false;
  }
  if (rules_.admit_probability < 1) {
    const uint64_t of_version = key_ ^ (uint64_t{version} * 0x9e3779b97f4a7c15);
    if (UniformAt(of_version, id) >= rules_.admit_probability) return false;
  }
  waiting_.erase(id);
  return true;
}

void RowAdmission::Forget(uint32_t version, uint32_t ttl) {
  absl::erase_if(waiting_, [=](const auto& row) { return version - row.second.last > ttl; });
}

std::vector<std::vector<WaitingRow>> RowAdmission::ByBucket(int begin, int end,
                                                            uint32_t version) const {
  std::vector<std::vector<WaitingRow>> buckets(static_cast<size_t>(std::max(0, end - begin)));
  for (const auto& [id, seen] : waiting_) {
    const int bucket = RowBucket(id);
    if (bucket < begin || bucket >= end) continue;
    buckets[static_cast<size_t>(bucket - begin)].push_back(
        {id, seen.versions, version - seen.last});
  }
  for (auto& rows : buckets) {
    std::sort(rows.begin(), rows.end(),
              [](const WaitingRow& a, const WaitingRow& b) { return a.id < b.id; });
  }
  return buckets;
}

}  // namespace tandem
