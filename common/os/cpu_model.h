// The name of this machine's processor, for reports and for measurements that are made once per
// machine.
#pragma once

#include <string>

namespace tandem {

// Returns "model name" of /proc/cpuinfo, or "unknown processor" if /proc/cpuinfo has no such line.
std::string CpuModel();

}  // namespace tandem
