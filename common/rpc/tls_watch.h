// Lets a Connection check the bytes that gRPC decrypts, before gRPC reads them. The .cc file
// defines SSL_read() for this.
#pragma once

namespace tandem::rpc {

// Does nothing. A server calls it so that the linker includes tls_watch.cc with SSL_read().
void LinkTlsWatch();

}  // namespace tandem::rpc
