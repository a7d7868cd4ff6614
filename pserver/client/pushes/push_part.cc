#include "pserver/client/pushes/push_part.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"

namespace tandem::ps {

bool HasRows(const PushPart& part) {
  return std::any_of(part.slices.begin(), part.slices.end(),
                     [](const codec::CodedSlice& s) { return s.desc.dtype == DType::kI64; });
}

std::set<size_t> OwnersOf(const PushPart& part, const OwnerMap& now, const JobTables& tables) {
  std::set<size_t> owners;
  for (size_t k = 0; k < part.slices.size(); ++k) {
    const codec::CodedSlice& s = part.slices[k];
    if (s.desc.dtype != DType::kI64) {
      owners.insert(now.slices[tables.SliceAt(s.variable, s.offset)]);
      continue;
    }
    ++k;  // skips the values that follow the ids
    TD_REQUIRE(k < part.slices.size());
    const auto* const ids = static_cast<const int64_t*>(s.data);
    for (int64_t i = 0; i < s.desc.shape[0]; ++i) {
      owners.insert(now.OwnerOf(static_cast<uint64_t>(ids[i])));
    }
  }
  return owners;
}

// The generation of the part's server is not enough to decide: since the server gave buckets away,
// the client may not have called the server. A part is therefore also stale if another server owns
// some of its contents.
bool IsStale(const PushPart& part, const OwnerMap& now, const JobTables& tables) {
  TD_REQUIRE(part.server < now.generations.size());
  std::set<size_t> others = OwnersOf(part, now, tables);
  others.erase(part.server);
  return now.generations[part.server] != part.header.generation || !others.empty();
}

codec::CodedPush ToCoded(const PushPart& part, std::string pull) {
  TD_REQUIRE(part.header.sequence != 0);
  return {.header = part.header, .slices = part.slices, .pull = std::move(pull)};
}

}  // namespace tandem::ps
