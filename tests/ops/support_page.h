// docs/reference/operators.md: every operator and where it runs, generated from the definitions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::optest {

// The reason why an operator has no CUDA kernel, or what replaces it; "" for operators that need a
// kernel.
std::string WithoutCudaKernel(std::string_view op);

// The text of the page. `cuda`: operators with CUDA kernels.
std::string SupportPage(const std::set<std::string>& cuda);

// Operators in the kernel table of a CUDA module; needs no device. UNAVAILABLE: the module at
// `path` cannot be opened.
StatusOr<std::set<std::string>> CudaOps(const std::string& path);

// The CUDA column of an earlier page, for machines that did not build the module.
std::set<std::string> CudaOpsOfPage(const std::string& page);

}  // namespace tandem::optest
