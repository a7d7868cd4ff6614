// The log of one process of a job, in the job's folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

// Mode 0600. Not thread-safe.
class LogFile {
 public:
  // Goes on behind what is there.
  static StatusOr<LogFile> Open(const std::string& path);

  int fd() const { return file_.get(); }  // for a process that writes by itself
  void Append(std::string_view text);
  // For a log that a process writes by itself, once it has ended: without a free block its last
  // lines may be missing.
  void LookForRoom();
  // OK, or why the first text is not in the file that could not be written.
  const Status& lost() const { return lost_; }

 private:
  LogFile(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  Fd file_;
  Status lost_;
};

}  // namespace tandem::deploy
