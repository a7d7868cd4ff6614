// Secrets that tandemrun makes for one job. They are in its memory alone and end with it, however
// it ends.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

// Processes of the same user read a secret at its path while this object lives: the path is a link
// to a sealed file in memory, /proc/PID/fd/N of this process. No disk ever has it. After SIGKILL
// the link points to nothing.
class HeldSecrets {
 public:
  HeldSecrets() = default;
  HeldSecrets(HeldSecrets&&) = default;
  HeldSecrets& operator=(HeldSecrets&&) = delete;
  ~HeldSecrets();  // removes links and folders

  // Replaces what an earlier job left at `path`.
  Status Hold(const std::string& path, std::string_view secret);
  // A folder that goes with them, and all that is in it. `lock` stays open until then.
  void AddFolder(const std::string& path, Fd lock = {}) {
    folders_.push_back(path);
    files_.push_back(std::move(lock));
  }

 private:
  std::vector<Fd> files_;
  std::vector<std::string> links_, folders_;
};

}  // namespace tandem::deploy
