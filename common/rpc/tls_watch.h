// Lets a Connection check the bytes that gRPC decrypts, before gRPC reads them. For this purpose
// tls_watch.cc replaces SSL_read() of OpenSSL.
#pragma once

namespace tandem::rpc {

// Does nothing. A server calls it so that the linker includes tls_watch.cc with SSL_read().
void LinkTlsWatch();

}  // namespace tandem::rpc
