// The name of this processor, for reports and for measurements that are made once per machine.
#pragma once

#include <string>

namespace tandem {

// Returns "model name" of /proc/cpuinfo, or "unknown processor" if it is missing.
std::string CpuModel();

}  // namespace tandem
