#include "pserver/tables/rows/row_tiers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {
namespace {

constexpr size_t kPutRows = 4096;    // maximum number of rows per write
constexpr uint32_t kTrimShare = 16;  // 1 / kTrimShare of the limit is freed at a time

}  // namespace

RowTiers::RowTiers(const RowAccessor& accessor, int64_t floats, int64_t brief, uint32_t rows_max,
                   RowStore& hot, ColdStore& cold)
    : accessor_(accessor),
      rows_max_(rows_max),
      bytes_max_(rows_max * RowMemoryBytes(floats)),
      hot_(hot),
      cold_(cold.NewTable(floats, brief)) {
  TD_REQUIRE(rows_max >= 1);
}

void RowTiers::CountCold(bool brief, int more) {
  TD_REQUIRE(more >= 0 || cold_count_ >= static_cast<size_t>(-more));
  cold_count_ += static_cast<size_t>(more);
  if (!brief) cold_full_ += static_cast<size_t>(more);
}

bool RowTiers::IsHot(uint64_t id) const {
  uint32_t at = RowStore::kNone;
  hot_.Find({&id, 1}, &at);
  return at != RowStore::kNone;
}

// Applies the missed rules to `row`, a copy outside memory. If the row is also in memory, the row
// there has counts and a last use that are at least as high. If a rule removes the row in memory,
// the same rule therefore also removes the copy. The removed row cannot be read from the copy
// later.
bool RowTiers::Stays(ColdRow& row) const {
  for (; row.shrinks < shrinks_.size(); ++row.shrinks) {
    if (!accessor_.FadeAndStay(shrinks_[row.shrinks], row.use)) return false;
  }
  return true;
}

Status RowTiers::Fetch(std::span<const uint64_t> ids) {
  if (cold_count_ == 0) return OkStatus();
  std::vector<uint32_t> at(ids.size());
  hot_.Find(ids, at.data());
  std::vector<uint64_t> missing;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (at[i] == RowStore::kNone) missing.push_back(ids[i]);
  }
  if (missing.empty()) return OkStatus();
  const Time start = SteadyNow();
  Status status = cold_->Get(missing, [this](const ColdRow& found) -> Status {
    ColdRow row = found;
    // The row may be in memory if `ids` has its id twice.
    if (!Stays(row) || IsHot(row.id)) return OkStatus();
    TD_ASSIGN_OR_RETURN(const uint32_t place, hot_.Add(row.id, row.brief));
    std::memcpy(hot_.Row(place), row.values, hot_.slabs(row.brief).floats() * sizeof(float));
    hot_.SetUse(place, row.use);
    hot_.Mark(place) = kUsed | kClean;
    CountCold(row.brief, -1);
    ++counts_.fetched;
    return OkStatus();
  });
  counts_.read_seconds += Seconds(SteadyNow() - start);
  return status;
}

Status RowTiers::Read(std::vector<uint64_t>& ids, const ColdRows::Take& take) const {
  if (cold_count_ == 0 || ids.empty()) return OkStatus();
  return cold_->Get(ids, [&](const ColdRow& found) -> Status {
    ColdRow row = found;
    return Stays(row) ? take(row) : OkStatus();
  });
}

Status RowTiers::Trim() {
  if (hot_.row_bytes() <= bytes_max_) return OkStatus();
  const size_t bytes_of_row = bytes_max_ / rows_max_;
  const size_t keep = bytes_max_ - rows_max_ / kTrimShare * bytes_of_row;
  while (hot_.row_bytes() > keep) TD_RETURN_IF_ERROR(Evict(keep));
  return OkStatus();
}

// Evicts one batch of rows. The clock hand stops at the last index, so it visits no row twice.
Status RowTiers::Evict(size_t keep_bytes) {
  if (hand_ >= hot_.size()) hand_ = 0;
  std::vector<ColdRow> rows;
  std::vector<uint32_t> places;
  size_t leaving = 0;  // bytes of the rows that will be evicted
  while (hand_ < hot_.size() && rows.size() < kPutRows && hot_.row_bytes() - leaving > keep_bytes) {
    const uint32_t at = hot_.At(hand_);
    uint8_t& mark = hot_.Mark(at);
    if ((mark & kUsed) != 0) {
      mark &= static_cast<uint8_t>(~kUsed);
    } else if ((mark & kClean) != 0) {
      CountCold(hot_.brief(at), 1);
      hot_.Remove(at);  // the last row gets this index, so the hand stays
      continue;
    } else {
      rows.push_back({hot_.Id(at), hot_.Use(at), static_cast<uint32_t>(shrinks_.size()),
                      hot_.Row(at), hot_.brief(at)});
      places.push_back(at);
      leaving += RowMemoryBytes(static_cast<int64_t>(hot_.slabs(hot_.brief(at)).floats()));
    }
    ++hand_;
  }
  if (rows.empty()) return OkStatus();
  TD_RETURN_IF_ERROR(cold_->Put(rows));
  // Removes the rows in descending order, because Remove gives the index of a removed row to the
  // last row. A row that must still be removed thus keeps its index.
  for (size_t i = places.size(); i-- > 0;) {
    CountCold(rows[i].brief, 1);
    hot_.Remove(places[i]);
  }
  counts_.written += rows.size();
  return OkStatus();
}

Status RowTiers::Discard(std::span<const uint64_t> ids) {
  if (counts_.written == 0) return OkStatus();
  std::vector<uint64_t> asked(ids.begin(), ids.end()), found;
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  std::array<int, 2> alone{};  // number of full and of brief rows that exist only outside
  TD_RETURN_IF_ERROR(cold_->Get(asked, [&](const ColdRow& copy) {
    ColdRow row = copy;
    found.push_back(row.id);
    if (Stays(row) && !IsHot(row.id)) ++alone[row.brief ? 1 : 0];
    return OkStatus();
  }));
  TD_RETURN_IF_ERROR(cold_->Remove(found));
  CountCold(false, -alone[0]);
  CountCold(true, -alone[1]);
  uint32_t at = RowStore::kNone;
  for (const uint64_t id : found) {
    hot_.Find({&id, 1}, &at);
    if (at != RowStore::kNone) hot_.Mark(at) &= static_cast<uint8_t>(~kClean);
  }
  return OkStatus();
}

StatusOr<size_t> RowTiers::Shrink(const RowCheck& check,
                                  const std::function<void(const ColdRow&)>& removed) {
  size_t count = 0;
  Status tidied;
  for (int bucket = 0; cold_count_ != 0 && bucket < kRowBuckets; ++bucket) {
    std::vector<uint64_t> gone;
    TD_RETURN_IF_ERROR(Scan(bucket, [&](const ColdRow& row) {
      RowUse use = row.use;
      if (accessor_.FadeAndStay(check, use)) return OkStatus();
      gone.push_back(row.id);
      CountCold(row.brief, -1);
      removed(row);
      return OkStatus();
    }));
    count += gone.size();
    tidied.Update(cold_->Remove(gone));
  }
  // The result counts the rows as removed even if the cold store cannot free their disk space.
  LOG_IF(WARNING, !tidied.ok()) << "cannot free the disk space of removed rows: "
                                << ToString(tidied);
  shrinks_.push_back(check);
  return count;
}

Status RowTiers::Scan(int bucket, const ColdRows::Take& take) const {
  if (cold_count_ == 0) return OkStatus();
  return cold_->Scan(bucket, [&](const ColdRow& copy) -> Status {
    ColdRow row = copy;
    return IsHot(row.id) || !Stays(row) ? OkStatus() : take(row);
  });
}

}  // namespace tandem::pserver
