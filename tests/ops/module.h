// A backend's module, opened as a test wants it: whether or not there is a device.
#pragma once

#include <string>

#include "kernels/exec/backend.h"

namespace tandem::optest {

// The module at `path`; it stays open. UNAVAILABLE when it cannot be opened or is of another build.
StatusOr<const BackendModule*> OpenModule(const std::string& path);
// The CUDA module of this build.
StatusOr<const BackendModule*> OpenCudaModule();

// Its kernels for an operator; empty when it has none.
std::span<const KernelImpl> KernelsOf(const BackendModule& module, std::string_view op);
const KernelRegistration* RowOf(const BackendModule& module, std::string_view op);  // nullptr: none

}  // namespace tandem::optest
