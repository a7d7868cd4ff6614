// The environment variables of the NCCL library.
#pragma once

#include <map>
#include <string>

namespace tandem {
class RuntimeFlags;
}  // namespace tandem

namespace tandem::trainer {

// Returns the environment variables for the nccl_* knobs that a strategy sets. The caller must set
// these variables before the first call of NCCL. The user sets all other variables of NCCL.
std::map<std::string, std::string> NcclEnvironment(const RuntimeFlags& flags);

// Returns the variables in `environment` that NCCL reads, for example "NCCL_DEBUG=INFO
// NCCL_IB_DISABLE=1".
std::string NcclVariables(const std::map<std::string, std::string>& environment);

}  // namespace tandem::trainer
