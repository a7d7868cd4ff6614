// The log of one process of a job, in the job's log directory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

// Mode 0600. Not thread-safe.
class LogFile {
 public:
  // Appends to an existing file.
  static StatusOr<LogFile> Open(const std::string& path);

  int fd() const { return file_.get(); }  // for a process that writes directly
  void Append(std::string_view text);
  // Checks for a full disk after a process that writes its log directly has ended: its last lines
  // may then be missing.
  void LookForRoom();
  // OK, or the reason why text is missing from the file since the first failed write.
  const Status& lost() const { return lost_; }

 private:
  LogFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
  Status lost_;
};

}  // namespace tandem::deploy
