// Makes temporary directories for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace tandem {

// A temporary directory. The destructor removes it.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr) << name;
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace tandem
