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

  int fd() const { return file_.get(); }  // for a process that writes to the log directly
  void Append(std::string_view text);
  // Checks whether the disk is full, after a process that writes to the log directly has ended. The
  // last lines of its log may then be missing.
  void LookForRoom();
  // Returns OK, or why text is missing in the file since the first failed write.
  const Status& lost() const { return lost_; }

 private:
  LogFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
  Status lost_;
};

}  // namespace tandem::deploy
