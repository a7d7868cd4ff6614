// The command that builds the CUDA module on a host that does not have the module.
#pragma once

namespace tandem::exec {

// Keep this command equal to the one in deploy/quickstart.sh.
constexpr char kBuildCudaModule[] = "./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda";

}  // namespace tandem::exec
