// The secrets that tandemrun creates for one job. They exist only in its memory and end with the
// process, even if it is killed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

// While this object lives, processes of the same user can read a secret at its path. The path is a
// link to a sealed file in memory, /proc/PID/fd/N of this process. The secret is never on a disk.
// After SIGKILL the link points to nothing.
class HeldSecrets {
 public:
  HeldSecrets() = default;
  HeldSecrets(HeldSecrets&&) = default;
  HeldSecrets& operator=(HeldSecrets&&) = delete;
  ~HeldSecrets();  // removes links and directories

  // Replaces a secret that an earlier job left at `path`.
  Status Hold(const std::string& path, std::string_view secret);
  // Adds a directory that the destructor removes with its content. `lock` stays open until then.
  void AddDir(const std::string& path, Fd lock = {}) {
    dirs_.push_back(path);
    files_.push_back(std::move(lock));
  }

 private:
  std::vector<Fd> files_;
  std::vector<std::string> links_, dirs_;
};

}  // namespace tandem::deploy
