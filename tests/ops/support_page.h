// Generates docs/reference/operators.md from the definitions of operators. The page lists every
// operator and the devices on which it runs.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::optest {

// Returns the reason why the operator has no CUDA kernel, or the name of its replacement. Returns
// "" if the operator needs a kernel.
std::string WithoutCudaKernel(std::string_view op);

// Returns the text of the page. `cuda`: names of the operators with CUDA kernels.
std::string SupportPage(const std::set<std::string>& cuda);

// Returns the operators in the kernel table of the CUDA module at `path`. Needs no device.
// UNAVAILABLE: the module cannot be opened.
StatusOr<std::set<std::string>> CudaOps(const std::string& path);

// Returns the operators that have a CUDA kernel according to `page`, the text of operators.md.
// Machines without the CUDA module use this function instead of CudaOps.
std::set<std::string> CudaOpsOfPage(const std::string& page);

}  // namespace tandem::optest
