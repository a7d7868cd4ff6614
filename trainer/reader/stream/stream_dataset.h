// The training records of a stream as a dataset without an end.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/line_format.h"
#include "trainer/reader/input/record_log.h"

namespace tandem::reader {

// The counts of the records that one rank has read. Records that are read again after a restart
// count again.
struct StreamCounts {
  uint64_t records = 0, skipped = 0;  // all records, and bad ones among them
  uint64_t removed = 0;               // records that the source removed before they were read
  int64_t newest_time_ms = 0;         // Unix time of the newest record of a step; 0: unknown
};

// The samples of an epoch are the records of epoch_steps() steps. A step is a function of its
// number: global batch `step` of the log. So a step and its records are the same in every process
// and after every restart. A bad record occupies its place: a sample without values replaces it. So
// does a record of an earlier step that the source no longer has.
//
// FillEpoch blocks until the records exist. Only one thread may call FillEpoch; all other functions
// are thread-safe.
class StreamDataset final : public Dataset {
 public:
  struct Options {
    uint64_t global_batch = 0;    // records of a step on all ranks
    uint64_t epoch_steps = 0;     // steps of an epoch
    int64_t bad_records_max = 0;  // largest accepted number of bad records of a file
  };

  // REQUIRES: epoch_steps * global_batch is below 2^32.
  StreamDataset(const Options& options, std::unique_ptr<LineFormat> format,
                std::unique_ptr<RecordLog> log);

  uint32_t size() const override {
    return static_cast<uint32_t>(options_.epoch_steps * options_.global_batch);
  }
  const std::vector<SampleField>& fields() const override { return format_->fields(); }
  // Always fails: a sample of a stream belongs to an epoch.
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override;
  // `ids`: consecutive samples of one step.
  Status FillEpoch(uint64_t epoch, std::span<const uint32_t> ids,
                   std::span<void* const> out) const override;
  void EndWaits() const override { log_->EndWaits(); }
  void AllowWaits() const override { log_->AllowWaits(); }
  std::string Describe() const override { return log_->Describe(); }

  // Declares that `job` begins or continues with this step (RecordLog::Begin).
  Status Begin(const std::string& job, uint64_t step) const { return log_->Begin(job, step); }
  uint64_t epoch_steps() const { return options_.epoch_steps; }
  // Returns the counts after step `step`. Steps that were read ahead of it count in `records` and
  // `skipped`, but not in the time. Successive calls need ascending steps, except after a reset.
  StreamCounts counts(uint64_t step) const;
  // Returns the Unix time of the newest record of step `step`, in milliseconds; 0: unknown, or
  // counts was called for a later step.
  int64_t newest_time_ms(uint64_t step) const;

 private:
  Status OnBad(const LogLines& lines, size_t line, const Status& why) const;

  const Options options_;
  const std::unique_ptr<LineFormat> format_;
  const std::unique_ptr<RecordLog> log_;
  mutable Mutex mu_;
  // Number of bad records by the path of their file.
  mutable std::map<std::string, int64_t> bad_ TD_GUARDED_BY(mu_);
  // Time of the newest record of each step that was read and not yet counted, by step.
  mutable std::map<uint64_t, int64_t> times_ TD_GUARDED_BY(mu_);
  mutable std::atomic<uint64_t> records_{0}, skipped_{0};
};

}  // namespace tandem::reader
