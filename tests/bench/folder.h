// A temporary directory of a benchmark.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "common/base/status.h"

namespace tandem::bench {

// A temporary directory. The destructor removes it.
class Folder {
 public:
  Status Make() {
    std::string path = std::filesystem::temp_directory_path().string() + "/tandem_bench_XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return PermissionDenied("cannot make %s", path);
    path_ = path;
    return OkStatus();
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tandem::bench
