// Logs the calls of the stand-ins for CUDA's libraries.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

namespace tandem::cuda_on_host {

// Appends a line to the file that TANDEM_CUDA_ON_HOST_LOG names. Does nothing if the variable is
// not set.
inline void Note(const std::string& line) {
  const char* const path = std::getenv("TANDEM_CUDA_ON_HOST_LOG");
  if (path != nullptr) std::ofstream(path, std::ios::app) << line << std::endl;
}

}  // namespace tandem::cuda_on_host
