// gRPC 1.51 stops accepting for ever after one accept4() failed for want of file descriptors
// (measured; grpc issues 16058, 20418, 31080). Programs that link tandem_accept_guard have their
// own accept4(): it keeps a few descriptors in reserve, and with one of them accepts and closes the
// connections that do not fit, so that the listener goes on.
#pragma once

#include <cstdint>

namespace tandem {

// Raises the soft limit of file descriptors to the hard one and opens the reserve. Call once, early
// in main; without it accept4() opens the reserve when it is first called.
void InstallAcceptGuard();

// Connections closed because there was no descriptor for them.
uint64_t ConnectionsDropped();

}  // namespace tandem
