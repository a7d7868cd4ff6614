// What the stand-ins for CUDA's libraries were asked for.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace tandem::cuda_on_host {

// A line in the file that TANDEM_CUDA_ON_HOST_LOG names; nothing without it.
inline void Note(const std::string& line) {
  const char* const path = std::getenv("TANDEM_CUDA_ON_HOST_LOG");
  if (path != nullptr) std::ofstream(path, std::ios::app) << line << std::endl;
}

}  // namespace tandem::cuda_on_host
