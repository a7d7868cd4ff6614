// Opens the module of a backend for a test, with or without a device.
#pragma once

#include <string>

#include "kernels/exec/backend.h"

namespace tandem::optest {

// Opens the module at `path`, which stays open. UNAVAILABLE: it cannot be opened or belongs to
// another build.
StatusOr<const BackendModule*> OpenModule(const std::string& path);
// The CUDA module of this build.
StatusOr<const BackendModule*> OpenCudaModule();

// Its kernels for an operator; empty: none.
std::span<const KernelImpl> KernelsOf(const BackendModule& module, std::string_view op);
const KernelRegistration* RowOf(const BackendModule& module, std::string_view op);  // nullptr: none

}  // namespace tandem::optest
