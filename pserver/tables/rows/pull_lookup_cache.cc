#include "pserver/tables/rows/pull_lookup_cache.h"

#include <algorithm>

namespace tandem::pserver {

const PullLookupCache::Pull* PullLookupCache::Find(std::span<const uint64_t> ids,
                                                   uint64_t moves) const {
  for (const Pull& pull : pulls_) {
    if (pull.moves == moves && std::ranges::equal(pull.ids, ids)) return &pull;
  }
  return nullptr;
}

}  // namespace tandem::pserver
