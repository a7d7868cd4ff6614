// The command that builds the CUDA module on a host that has none.
#pragma once

namespace tandem {

// deploy/quickstart.sh contains the same command.
constexpr char kBuildCudaModule[] = "./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda";

}  // namespace tandem
