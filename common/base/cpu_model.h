// Which processor this is, for reports and for what is measured once per machine.
#pragma once

#include <string>

namespace tandem {

// "model name" of /proc/cpuinfo; "unknown processor" where it does not say.
std::string CpuModel();

}  // namespace tandem
