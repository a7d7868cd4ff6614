#include "pserver/tables/rows/row_accessor.h"

#include "common/base/require.h"

namespace tandem::pserver {

Status RowAccessor::CheckCounts(std::span<const uint64_t> ids, const float* pushed) const {
  if (!ctr()) return OkStatus();
  for (const uint64_t id : ids) {
    const float show = pushed[0], click = pushed[1];
    if (click < 0 || show < click) {
      return InvalidArgument("row %d has %.9g shows and %.9g clicks, expected 0 <= clicks <= shows",
                             id, show, click);
    }
    pushed += counts() + dim_;
  }
  return OkStatus();
}

bool RowAccessor::Extends(const RowUse& use) const {
  return ctr() && Score(use) >= static_cast<float>(rules_.embedx_threshold);
}

bool RowAccessor::FadeAndStay(const RowCheck& check, RowUse& use) const {
  TD_REQUIRE(!check.begin);
  use.show *= check.decay;
  use.click *= check.decay;
  if (static_cast<uint32_t>(check.version) - use.last > check.age_max) return false;
  return Score(use) >= static_cast<float>(rules_.shrink_score);
}

}  // namespace tandem::pserver
