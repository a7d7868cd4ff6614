// Opens the kernel module of a backend, for tests with or without a device.
#pragma once

#include <string>

#include "kernels/exec/backend.h"

namespace tandem::optest {

// Opens the module at `path`. The module stays open until the process ends. UNAVAILABLE: the module
// cannot be opened or belongs to another build.
StatusOr<const exec::BackendModule*> OpenModule(const std::string& path);
// Opens the CUDA module of this build.
StatusOr<const exec::BackendModule*> OpenCudaModule();

// Returns the module's kernels for the operator `op`; empty if the module has none.
std::span<const ops::KernelImpl> KernelsOf(const exec::BackendModule& module, std::string_view op);
// Returns the module's kernel table entry for the operator `op`; nullptr if the module has none.
const ops::KernelRegistration* RowOf(const exec::BackendModule& module, std::string_view op);

}  // namespace tandem::optest
