#include "pserver/tables/cow_slice_snapshot.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

void CowSliceSnapshot::Begin(size_t slices) {
  entries_.assign(slices, {});
  for (Entry& entry : entries_) entry.pending = true;
}

Status CowSliceSnapshot::CopySlice(int slice) {
  TD_REQUIRE(slice >= 0);
  // A slice that was added after Begin is not part of the snapshot. The owner calls CopyAll before
  // it adds or removes a slice, so all slices of the snapshot are already copied then.
  if (static_cast<size_t>(slice) >= entries_.size()) return OkStatus();
  Entry& entry = entries_[static_cast<size_t>(slice)];
  if (!entry.pending) return OkStatus();
  TD_ASSIGN_OR_RETURN(entry.copy, copy_(slice));
  entry.pending = false;
  return OkStatus();
}

Status CowSliceSnapshot::CopyAll() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    TD_RETURN_IF_ERROR(CopySlice(static_cast<int>(i)));
  }
  return OkStatus();
}

void CowSliceSnapshot::Abandon() { entries_.assign(entries_.size(), {}); }

StatusOr<std::vector<SliceSnapshot>> CowSliceSnapshot::Finish() {
  std::vector<SliceSnapshot> copies;
  for (Entry& entry : std::exchange(entries_, {})) {
    TD_REQUIRE(!entry.pending);
    if (entry.copy.param == nullptr) {
      return ResourceExhausted("cannot copy a slice that moves: out of memory [TD2116]");
    }
    copies.push_back(std::move(entry.copy));
  }
  return copies;
}

}  // namespace tandem::pserver
