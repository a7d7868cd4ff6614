#include "trainer/reader/stream/stream_dataset.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "trainer/reader/input/text_lines.h"

namespace tandem::reader {
namespace {

constexpr size_t kTimesMax = 1 << 17;  // steps, more than a reader can be ahead
constexpr int64_t kNamed = 10;         // bad records of a file that messages name

}  // namespace

StreamDataset::StreamDataset(const Options& options, std::unique_ptr<LineFormat> format,
                             std::unique_ptr<RecordLog> log)
    : options_(options), format_(std::move(format)), log_(std::move(log)) {
  TD_REQUIRE(options_.global_batch > 0 && options_.epoch_steps > 0);
  TD_REQUIRE(options_.epoch_steps < (uint64_t{1} << 32) / options_.global_batch);
}

Status StreamDataset::Fill(std::span<const uint32_t>, std::span<void* const>) const {
  return FailedPrecondition("a stream has no samples outside its steps");
}

Status StreamDataset::OnBad(const LogLines& lines, size_t line, const Status& why) const {
  const LogLines::Line& at = lines[line];
  if (at.removed) return OkStatus();  // the log counts and names it
  ++skipped_;
  int64_t count = 0;
  {
    MutexLock lock(mu_);
    count = ++bad_[*at.source];
  }
  const std::string what =
      absl::StrFormat("%s: offset %d: %s", *at.source, at.offset, std::string(why.message()));
  if (count > options_.bad_records_max) {
    return DataLoss("%s; this is bad record %d of the %s, but max_bad_records is %d [TD2003]", what,
                    count, log_->part(), options_.bad_records_max);
  }
  if (count <= kNamed) LOG(WARNING) << "bad record skipped: " << what;
  if (count == kNamed) {
    LOG(WARNING) << *at.source << ": further bad records are counted, but not named";
  }
  return OkStatus();
}

Status StreamDataset::FillEpoch(uint64_t epoch, std::span<const uint32_t> ids,
                                std::span<void* const> out) const {
  TD_REQUIRE(!ids.empty() && ids.back() < size());
  TD_REQUIRE(ids.back() - ids.front() + 1 == ids.size());
  const uint64_t step = epoch * options_.epoch_steps + ids.front() / options_.global_batch;
  const uint64_t first = ids.front() % options_.global_batch;
  LogLines lines;
  TD_RETURN_IF_ERROR(log_->Read(step, first, ids.size(), &lines));
  lines.Finish();
  TD_REQUIRE(lines.size() == ids.size());
  std::vector<std::string_view> texts;
  texts.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) texts.push_back(lines.text(i));
  const auto on_bad = [&](size_t line, const Status& why) { return OnBad(lines, line, why); };
  TD_RETURN_IF_ERROR(format_->Parse(texts, on_bad, out));
  records_ += lines.size();
  MutexLock lock(mu_);
  times_.erase(times_.upper_bound(step), times_.end());  // steps before a reset
  int64_t& time = times_[step];
  time = std::max(time, log_->newest_time_ms());
  if (times_.size() > kTimesMax) times_.erase(times_.begin());
  return OkStatus();
}

StreamCounts StreamDataset::counts(uint64_t step) const {
  MutexLock lock(mu_);
  StreamCounts counts{records_.load(), skipped_.load(), log_->removed(), 0};
  const auto after = times_.upper_bound(step);
  if (after == times_.begin()) return counts;
  counts.newest_time_ms = std::prev(after)->second;
  times_.erase(times_.begin(), std::prev(after));  // the next call may be for the same step
  return counts;
}

int64_t StreamDataset::newest_time_ms(uint64_t step) const {
  MutexLock lock(mu_);
  const auto after = times_.upper_bound(step);
  return after == times_.begin() ? 0 : std::prev(after)->second;
}

}  // namespace tandem::reader
