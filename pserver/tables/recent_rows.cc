#include "pserver/tables/recent_rows.h"

#include <algorithm>

namespace tandem {

const RecentRows::Pull* RecentRows::Find(std::span<const uint64_t> ids, uint64_t moves) const {
  for (const Pull& pull : pulls_) {
    if (pull.moves == moves && std::ranges::equal(pull.ids, ids)) return &pull;
  }
  return nullptr;
}

}  // namespace tandem
