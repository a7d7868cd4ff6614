// Connects ranks that are threads of one process, through ring buffers in memory. For tests.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"

namespace tandem::collective {

// Creates one transport for each of `size` ranks. The ring buffer from one rank to another holds at
// most `pipe_bytes` bytes. The transports may be destroyed in any order and on any thread. After
// the destruction of a transport, the other ranks see that its rank has left.
std::vector<std::unique_ptr<Transport>> MakeInprocTransports(int size,
                                                             size_t pipe_bytes = 256 << 10);

// Creates a communicator for each of `size` ranks, over the transports of MakeInprocTransports.
// Replaces `config.name`.
std::vector<std::unique_ptr<Communicator>> MakeInprocCommunicators(
    int size, HostCommunicatorConfig config = {});

}  // namespace tandem::collective
