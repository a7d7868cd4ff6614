#include "deploy/cli/idx_data.h"

#include <filesystem>

namespace tandem::deploy {

Status CheckIdxDir(const std::string& dir) {
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                           "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string path = dir + "/" + name;
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !std::filesystem::exists(path + ".gz", error)) {
      return NotFound(
          "directory %s contains neither file %s nor this file compressed as .gz [TD2001]", dir,
          name);
    }
  }
  return OkStatus();
}

}  // namespace tandem::deploy
