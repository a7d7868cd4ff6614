// What gRPC decrypts is read by its Connection first: the file defines SSL_read().
#pragma once

namespace tandem::rpc {

// Called by servers, so that the linker takes the file into their programs.
void LinkTlsWatch();

}  // namespace tandem::rpc
