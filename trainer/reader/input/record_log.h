// The records of a stream as numbered lines. A log has no end: a reader waits for records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "trainer/reader/input/text_lines.h"

namespace tandem::reader {

// Consecutive lines of a log with their places. The places are for messages.
class LogLines {
 public:
  struct Line {
    size_t begin = 0, size = 0;  // in the text
    // Path of the file, or topic and partition.
    std::shared_ptr<const std::string> source;
    uint64_t offset = 0;   // offset of the first byte in the file, or of the message
    bool removed = false;  // the source no longer has the record, and the text is no good record
  };

  // Adds a line. Keeps at most kLineMax + 1 bytes, so that a longer line is a bad record.
  void Add(std::string_view line, std::shared_ptr<const std::string> source, uint64_t offset) {
    const std::string_view kept = line.substr(0, kLineMax + 1);
    lines_.push_back({text_.size(), kept.size(), std::move(source), offset});
    text_.append(kept);
  }
  // Adds a line for a record that the source no longer has. `offset`: about the offset it had.
  void AddRemoved(std::shared_ptr<const std::string> source, uint64_t offset) {
    // A line that is a record, but a bad one, in each format.
    Add("removed", std::move(source), offset);
    lines_.back().removed = true;
  }
  // Makes kLineSlack bytes after the last line readable. No line may be added afterwards.
  void Finish() { text_.append(kLineSlack, '\0'); }
  size_t size() const { return lines_.size(); }
  const Line& operator[](size_t i) const { return lines_[i]; }
  std::string_view text(size_t i) const {
    return std::string_view(text_).substr(lines_[i].begin, lines_[i].size);
  }

 private:
  std::string text_;
  std::vector<Line> lines_;
};

// The parts of global batches that one rank reads from a log.
struct LogShare {
  uint64_t global_batch = 0;     // records of a step on all ranks
  uint32_t ranks = 1, rank = 0;  // number of ranks, and this rank
};

// Not thread-safe, except EndWaits, AllowWaits, newest_time_ms and removed.
class RecordLog {
 public:
  virtual ~RecordLog() = default;

  // Declares that `job` begins or continues with global batch `step`. Must be called before Read.
  // FAILED_PRECONDITION: the earlier steps of the job had global batches of another size, so `step`
  // does not say which records they had.
  virtual Status Begin(const std::string& job, uint64_t step) = 0;
  // Appends the records [first, first + count) of global batch `step` to `lines`, where the records
  // of a global batch have the numbers 0 to global_batch - 1. Blocks until the whole global batch
  // exists. CANCELLED: EndWaits was called. DATA_LOSS: a record no longer exists or the log was
  // changed; the message names the file.
  virtual Status Read(uint64_t step, uint64_t first, uint64_t count, LogLines* lines) = 0;
  // EndWaits makes all calls of Read that wait end with CANCELLED, now and until AllowWaits.
  virtual void EndWaits() = 0;
  virtual void AllowWaits() = 0;
  // Returns the Unix time of the newest record of the last Read, in milliseconds; 0: unknown.
  // Ignores times that PlausibleTime rejects.
  virtual int64_t newest_time_ms() const = 0;
  // Returns the number of records, or of places of records, that the source has removed before they
  // were read, and that the log has skipped since it was opened.
  virtual uint64_t removed() const { return 0; }
  // Returns what a source of lines is (LogLines::Line::source): "file" or "partition".
  virtual const char* part() const = 0;
  // Returns one line for the log that says where the records come from.
  virtual std::string Describe() const = 0;
};

// Returns the time of a record or, if it is more than a day ahead of the clock of this machine, 0
// with a warning that names `source`. A wrong time in the future would otherwise be the event time
// from then on, and tables with the rule ttl_s would lose their rows.
int64_t PlausibleTime(int64_t time_ms, const std::string& source);

}  // namespace tandem::reader
