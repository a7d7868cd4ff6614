// Skips, counts and reports the damaged records of a file, up to a limit. Internal to the readers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

class BadRecords {
 public:
  // `max`: largest accepted number of bad records. `warnings`: receives messages about the first
  // kNamed bad records and the number of bad records; must outlive this object.
  BadRecords(std::string path, int64_t max, std::vector<std::string>* warnings)
      : path_(std::move(path)), max_(max), warnings_(warnings) {}

  // Counts a bad record. `what`: a message that names the file and the location. DATA_LOSS: there
  // are more than `max` bad records.
  Status Add(const std::string& what) {
    if (++count_ > max_) {
      return DataLoss("%s; this is bad record %d of the file, but max_bad_records is %d [TD2003]",
                      what, count_, max_);
    }
    if (count_ <= kNamed) warnings_->push_back(what);
    return OkStatus();
  }
  // Reports the number of bad records. The reader must call Finish at the end of the file.
  void Finish() {
    if (count_ == 0) return;
    warnings_->push_back(absl::StrFormat("%s: skipped %d bad records", path_, count_));
  }

 private:
  static constexpr int64_t kNamed = 10;

  const std::string path_;
  const int64_t max_;
  std::vector<std::string>* const warnings_;
  int64_t count_ = 0;
};

}  // namespace tandem::reader
