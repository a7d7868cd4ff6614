#include "deploy/launch/held_secrets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"

namespace tandem::deploy {

HeldSecrets::~HeldSecrets() {
  std::error_code ignored;
  for (const std::string& link : links_) unlink(link.c_str());
  files_.clear();  // a process without free descriptors needs them to remove a directory
  for (const std::string& dir : dirs_) std::filesystem::remove_all(dir, ignored);
}

Status HeldSecrets::Hold(const std::string& path, std::string_view secret) {
  TD_REQUIRE(path.size() > 0 && secret.size() > 0);
  Fd file(memfd_create("tandem secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return FileError(path, "cannot be held in memory", errno);
  if (fchmod(file.get(), 0400) != 0) return FileError(path, "cannot be made private", errno);
  TD_RETURN_IF_ERROR(WriteAll(file.get(), path, secret));
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return FileError(path, "cannot be sealed", errno);
  }
  const std::string place = absl::StrFormat("/proc/%d/fd/%d", getpid(), file.get());
  unlink(path.c_str());
  if (symlink(place.c_str(), path.c_str()) != 0) return FileError(path, "cannot be made", errno);
  links_.push_back(path);
  files_.push_back(std::move(file));
  return OkStatus();
}

}  // namespace tandem::deploy
