// The environment variables of the NCCL library.
#pragma once

#include <map>
#include <string>

namespace tandem {
class RuntimeFlags;
}  // namespace tandem

namespace tandem::trainer {

// The environment variables for the nccl_* knobs that a strategy sets. Set them before the first
// call to NCCL. All other variables that NCCL finds come from the user.
std::map<std::string, std::string> NcclEnvironment(const RuntimeFlags& flags);

// The variables in `environment` that NCCL reads: "NCCL_DEBUG=INFO NCCL_IB_DISABLE=1".
std::string NcclVariables(const std::map<std::string, std::string>& environment);

}  // namespace tandem::trainer
