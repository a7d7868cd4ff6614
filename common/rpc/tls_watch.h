// What gRPC decrypts passes a Http2Watch first: the file has an SSL_read() of its own.
#pragma once

namespace tandem {

// Called by servers, so that the linker takes the file into their programs.
void LinkTlsWatch();

}  // namespace tandem
