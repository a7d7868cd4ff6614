// Implements the search of check_nan_inf on a CUDA device. Part of libtandem_cuda.so only.
#pragma once

#include "kernels/exec/backend.h"

namespace tandem::exec {

// Implements BackendModule::search.
Status StartCudaSearch(Device& device, const NonFiniteScan& search);

}  // namespace tandem::exec
