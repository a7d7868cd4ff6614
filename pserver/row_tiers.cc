#include "pserver/row_tiers.h"

#include <algorithm>
#include <cstring>

#include "common/base/clock.h"
#include "common/tensor/row_buckets.h"
#include "pserver/row_admission.h"

namespace tandem {
namespace {

constexpr size_t kPutRows = 4096;    // written at a time, at most
constexpr uint32_t kTrimShare = 16;  // of the bound is freed at a time

}  // namespace

RowTiers::RowTiers(const TableRules& rules, int64_t floats, uint32_t rows_max, RowStore& hot,
                   ColdStore& cold)
    : rules_(rules), floats_(floats), rows_max_(rows_max), hot_(hot), cold_(cold, floats) {}

bool RowTiers::IsHot(uint64_t id) const {
  uint32_t at = RowStore::kNone;
  hot_.Find({&id, 1}, &at);
  return at != RowStore::kNone;
}

// A row in memory has had at least the use that its copy outside knows of, so whatever removes the
// row removes the copy too: it does not come back to life.
bool RowTiers::Stays(ColdRow& row) const {
  for (; row.shrinks < shrinks_.size(); ++row.shrinks) {
    if (!FadeAndStay(rules_, shrinks_[row.shrinks], row.use)) return false;
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
  const Status status = cold_.Get(missing, [this](const ColdRow& found) -> Status {
    ColdRow row = found;
    if (!Stays(row) || IsHot(row.id)) return OkStatus();  // an id may come twice
    TD_ASSIGN_OR_RETURN(const uint32_t place, hot_.Add(row.id));
    std::memcpy(hot_.Row(place), row.values, static_cast<size_t>(floats_) * sizeof(float));
    hot_.Use(place) = row.use;
    hot_.Mark(place) = kUsed | kClean;
    --cold_count_;
    ++counts_.fetched;
    return OkStatus();
  });
  counts_.read_seconds += Seconds(SteadyNow() - start);
  return status;
}

Status RowTiers::Trim() {
  if (hot_.size() <= rows_max_) return OkStatus();
  const uint32_t keep = rows_max_ - rows_max_ / kTrimShare;
  while (hot_.size() > keep) TD_RETURN_IF_ERROR(Evict(keep));
  return OkStatus();
}

// One batch: the hand goes at most to the end of the places, so that it takes none twice.
Status RowTiers::Evict(uint32_t keep) {
  if (hand_ >= hot_.size()) hand_ = 0;
  std::vector<ColdRow> rows;
  std::vector<uint32_t> places;
  while (hand_ < hot_.size() && rows.size() < kPutRows && hot_.size() - rows.size() > keep) {
    uint8_t& mark = hot_.Mark(hand_);
    if ((mark & kUsed) != 0) {
      mark &= static_cast<uint8_t>(~kUsed);
    } else if ((mark & kClean) != 0) {
      hot_.Remove(hand_);  // the last row comes to its place
      ++cold_count_;
      continue;
    } else {
      rows.push_back({hot_.Id(hand_), hot_.Use(hand_), static_cast<uint32_t>(shrinks_.size()),
                      hot_.Row(hand_)});
      places.push_back(hand_);
    }
    ++hand_;
  }
  if (rows.empty()) return OkStatus();
  TD_RETURN_IF_ERROR(cold_.Put(rows));
  // From the last on, so that what comes to a place is never one that is to leave.
  for (size_t i = places.size(); i-- > 0;) hot_.Remove(places[i]);
  cold_count_ += rows.size();
  counts_.written += rows.size();
  return OkStatus();
}

Status RowTiers::Discard(std::span<const uint64_t> ids) {
  if (counts_.written == 0) return OkStatus();
  std::vector<uint64_t> asked(ids.begin(), ids.end()), found;
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  size_t alone = 0;
  TD_RETURN_IF_ERROR(cold_.Get(asked, [&](const ColdRow& copy) {
    ColdRow row = copy;
    found.push_back(row.id);
    alone += Stays(row) && !IsHot(row.id);
    return OkStatus();
  }));
  TD_RETURN_IF_ERROR(cold_.Remove(found));
  cold_count_ -= alone;
  uint32_t at = RowStore::kNone;
  for (const uint64_t id : found) {
    hot_.Find({&id, 1}, &at);
    if (at != RowStore::kNone) hot_.Mark(at) &= static_cast<uint8_t>(~kClean);
  }
  return OkStatus();
}

StatusOr<size_t> RowTiers::Shrink(uint32_t version,
                                  const std::function<void(const ColdRow&)>& removed) {
  size_t count = 0;
  Status tidied;
  for (int bucket = 0; cold_count_ != 0 && bucket < kRowBuckets; ++bucket) {
    std::vector<uint64_t> gone;
    TD_RETURN_IF_ERROR(Scan(bucket, [&](const ColdRow& row) {
      RowUse use = row.use;
      if (FadeAndStay(rules_, version, use)) return OkStatus();
      gone.push_back(row.id);
      removed(row);
      return OkStatus();
    }));
    count += gone.size();
    tidied.Update(cold_.Remove(gone));
  }
  // They are known to be gone all the same.
  LOG_IF(WARNING, !tidied.ok()) << "rows that were removed take room: " << ToString(tidied);
  cold_count_ -= count;
  shrinks_.push_back(version);
  return count;
}

Status RowTiers::Scan(int bucket, const ColdRows::Take& take) const {
  if (cold_count_ == 0) return OkStatus();
  return cold_.Scan(bucket, [&](const ColdRow& copy) -> Status {
    ColdRow row = copy;
    return IsHot(row.id) || !Stays(row) ? OkStatus() : take(row);
  });
}

}  // namespace tandem
