// Ranks that are threads of one process, connected by bounded pipes in memory. The conformance
// suite and tests of higher layers use them.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"

namespace tandem::collective {

// Creates one transport for each of `size` ranks. A pipe holds at most `pipe_bytes` per direction.
// The transports may be destroyed in any order and on any thread; the other ranks then see that the
// rank has left.
std::vector<std::unique_ptr<Transport>> MakeInprocTransports(int size,
                                                             size_t pipe_bytes = 256 << 10);

// The same, as communicators. Sets `config.name`.
std::vector<std::unique_ptr<Communicator>> MakeInprocCommunicators(
    int size, HostCommunicatorConfig config = {});

}  // namespace tandem::collective
