// What the NCCL library reads from the environment.
#pragma once

#include <map>
#include <string>

namespace tandem {

class RuntimeFlags;

// The variables that the knobs nccl_* of a strategy stand for, of those that are set. To be put
// into the environment before NCCL is first called; everything else that NCCL finds there is the
// user's own.
std::map<std::string, std::string> NcclEnvironment(const RuntimeFlags& flags);

// "NCCL_DEBUG=INFO NCCL_IB_DISABLE=1": all of `environment` that NCCL reads.
std::string NcclVariables(const std::map<std::string, std::string>& environment);

}  // namespace tandem
