#include "pserver/tables/slice_index.h"

#include <algorithm>

#include "common/base/nearest.h"
#include "common/base/require.h"

namespace tandem::pserver {

SliceIndex::SliceIndex(const std::vector<SliceSpec>& slices) {
  for (size_t i = 0; i < slices.size(); ++i) {
    std::vector<Entry>& same = by_variable_[slices[i].variable];
    if (same.empty()) names_.push_back(slices[i].variable);
    same.push_back({slices[i].offset, slices[i].numel, static_cast<int>(i)});
  }
  for (auto& [variable, entries] : by_variable_) {
    std::ranges::stable_sort(entries, {}, &Entry::offset);
    for (size_t i = 1; i < entries.size(); ++i) {
      TD_REQUIRE(entries[i - 1].offset + entries[i - 1].numel <= entries[i].offset);
    }
  }
}

StatusOr<const SliceIndex::Entry*> SliceIndex::FindEntry(const PullRange& range) const {
  const auto it = by_variable_.find(range.variable);
  if (it == by_variable_.end()) {
    return NotFound("unknown variable \"%s\" [TD1205]%s", range.variable,
                    OrDidYouMean(range.variable, names_));
  }
  for (const Entry& s : it->second) {
    if (range.numel >= 1 && range.offset >= s.offset && range.numel <= s.numel &&
        range.offset - s.offset <= s.numel - range.numel) {
      return &s;
    }
  }
  std::string have;
  for (const Entry& s : it->second) {
    have += absl::StrFormat("%s[%d, %d)", have.empty() ? "" : ", ", s.offset, s.offset + s.numel);
  }
  return NotFound("elements %d to %d+%d of %s are not on this server, which has elements %s",
                  range.offset, range.offset, range.numel, range.variable, have);
}

StatusOr<int> SliceIndex::FindRange(const PullRange& range) const {
  TD_ASSIGN_OR_RETURN(const Entry* const entry, FindEntry(range));
  return entry->slice;
}

StatusOr<int> SliceIndex::Find(const std::string& variable, int64_t offset) const {
  TD_ASSIGN_OR_RETURN(const Entry* const entry, FindEntry({variable, offset, 1}));
  if (entry->offset != offset) {
    return NotFound("%s has no slice that begins at element %d; the nearest begins at element %d",
                    variable, offset, entry->offset);
  }
  return entry->slice;
}

}  // namespace tandem::pserver
