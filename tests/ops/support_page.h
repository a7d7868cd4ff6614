// docs/reference/operators.md: what every operator is and where it runs, written from the
// definitions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::optest {

// Why an operator has no CUDA kernel, or what it has instead; "" for those that need one.
std::string WithoutCudaKernel(std::string_view op);

// The page. `cuda`: operators with CUDA kernels.
std::string SupportPage(const std::set<std::string>& cuda);

// Operators in the kernel table of a CUDA module; no device is needed. UNAVAILABLE when the module
// at `path` cannot be opened.
StatusOr<std::set<std::string>> CudaOps(const std::string& path);

// The CUDA column of an earlier page: for machines that did not build the module.
std::set<std::string> CudaOpsOfPage(const std::string& page);

}  // namespace tandem::optest
