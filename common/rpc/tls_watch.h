// Lets a Connection check the bytes that gRPC decrypts, before gRPC reads them. The .cc file
// defines SSL_read() for this.
#pragma once

namespace tandem::rpc {

// Servers call this so that the linker includes the object file.
void LinkTlsWatch();

}  // namespace tandem::rpc
