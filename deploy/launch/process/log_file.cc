#include "deploy/launch/process/log_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"

namespace tandem::deploy {

StatusOr<LogFile> LogFile::Open(const std::string& path) {
  TD_ASSIGN_OR_RETURN(Fd file, OpenOwnFile(path, O_WRONLY | O_CREAT | O_APPEND, OwnRule::kUser));
  return LogFile(path, std::move(file));
}

void LogFile::Append(std::string_view text) {
  TD_REQUIRE(file_.valid());
  const Status written = WriteAll(file_.get(), path_, text);
  if (lost_.ok()) lost_ = written;
}

void LogFile::LookForRoom() {
  struct statvfs info {};
  if (fstatvfs(file_.get(), &info) != 0 || info.f_blocks == 0) return;
  const auto free = geteuid() == 0 ? info.f_bfree : info.f_bavail;
  if (free == 0 && lost_.ok()) lost_ = FileError(path_, "may lack lines", ENOSPC);
}

}  // namespace tandem::deploy
