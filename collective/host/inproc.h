// Ranks that are threads of one process, joined by bounded pipes in memory: the conformance suite's
// second transport, and what tests of higher layers use.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"

namespace tandem {

// One transport for each of `size` ranks. A pipe holds at most `pipe_bytes` per direction. They may
// be destroyed in any order and on any thread; the others then see that the rank has left.
std::vector<std::unique_ptr<Transport>> MakeInprocTransports(int size,
                                                             size_t pipe_bytes = 256 << 10);

// The same as communicators. `config.name` is set.
std::vector<std::unique_ptr<Communicator>> MakeInprocCommunicators(
    int size, HostCommunicatorConfig config = {});

}  // namespace tandem
