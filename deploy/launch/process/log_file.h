// The log file of one process of a job, in the job's log directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

// A log file with mode 0600. Not thread-safe.
class LogFile {
 public:
  // Opens the file for appending, and creates it if it is missing.
  static StatusOr<LogFile> Open(const std::string& path);

  // Descriptor for a process that writes to the log directly.
  int fd() const { return file_.get(); }
  void Append(std::string_view text);
  // Checks whether the disk is full. If the disk is full, the last lines of the log may be missing,
  // and lost() returns an error. The caller calls LookForRoom after the end of a process that
  // writes to the log directly.
  void LookForRoom();
  // Returns the error of the first failed write, or of LookForRoom. The file may lack all text
  // after that write. OK: no write failed.
  const Status& lost() const { return lost_; }

 private:
  LogFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
  Status lost_;
};

}  // namespace tandem::deploy
