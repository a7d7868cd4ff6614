// Secrets that tandemrun creates for one job. The secrets exist only in the memory of tandemrun.
// They disappear with the process of tandemrun, even after SIGKILL.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

// Makes secrets readable at paths for processes of the same user, until destruction. Each path is a
// link to /proc/PID/fd/N of this process, a sealed file in memory. The secret is never on a disk.
// After SIGKILL the link has no target.
class HeldSecrets {
 public:
  HeldSecrets() = default;
  HeldSecrets(HeldSecrets&&) = default;
  HeldSecrets& operator=(HeldSecrets&&) = delete;
  ~HeldSecrets();  // removes all links and directories

  // Makes `secret` readable at `path`. Replaces a link that an earlier job left there.
  Status Hold(const std::string& path, std::string_view secret);
  // Adds a directory that the destructor removes together with its content. The descriptor `lock`
  // stays open until the destructor begins to remove directories.
  void AddDir(const std::string& path, Fd lock = {}) {
    dirs_.push_back(path);
    files_.push_back(std::move(lock));
  }

 private:
  std::vector<Fd> files_;
  std::vector<std::string> links_, dirs_;
};

}  // namespace tandem::deploy
