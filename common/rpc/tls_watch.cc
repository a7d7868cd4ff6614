#include "common/rpc/tls_watch.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "common/base/check.h"
#include "common/rpc/http2_watch.h"

namespace tandem {

void LinkTlsWatch() {}

namespace {

using Read = int (*)(SSL*, void*, int);

void FreeWatch(void*, void* watch, CRYPTO_EX_DATA*, int, long, void*) {
  const std::unique_ptr<Http2Watch> gone(static_cast<Http2Watch*>(watch));
}

// The watch of a TLS connection lives and ends with its SSL object.
Http2Watch* WatchOf(SSL* ssl) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeWatch);
  auto* watch = static_cast<Http2Watch*>(SSL_get_ex_data(ssl, index));
  if (watch != nullptr) return watch;
  auto made = std::make_unique<Http2Watch>();
  CHECK_EQ(SSL_set_ex_data(ssl, index, made.get()), 1);
  return made.release();
}

int WatchedRead(SSL* ssl, void* buffer, int size) {
  static const auto real = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "SSL_read"));
  CHECK(real != nullptr) << "SSL_read is in no library";
  const int got = real(ssl, buffer, size);
  if (got <= 0 || SSL_is_server(ssl) == 0) return got;
  Http2Watch* watch = WatchOf(ssl);
  // Whose call was accepted is known of sockets, not here: limits of strangers do not count.
  if (watch->Feed({static_cast<const char*>(buffer), static_cast<size_t>(got)}, false,
                  SteadyNow())) {
    return got;
  }
  LOG_EVERY_T(WARNING, 1.0) << "ended a TLS connection: " << watch->why();
  // So that SSL_get_error() says SSL_ERROR_SSL, and gRPC closes the connection.
  ERR_raise(ERR_LIB_USER, ERR_R_OPERATION_FAIL);
  return -1;
}

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int size) {
  return tandem::WatchedRead(ssl, buffer, size);
}
