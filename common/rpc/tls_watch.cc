#include "common/rpc/tls_watch.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "common/base/check.h"
#include "common/rpc/connection.h"

namespace tandem::rpc {

void LinkTlsWatch() {}

namespace {

using Read = int (*)(SSL*, void*, int);
using Held = std::shared_ptr<Connection>;

void FreeHeld(void*, void* held, CRYPTO_EX_DATA*, int, long, void*) {
  const std::unique_ptr<Held> gone(static_cast<Held*>(held));
}

// Returns the connection that the acceptor linked with the ClientHello of `ssl`, or null. `ssl`
// holds a reference to the connection after the first call.
Connection* ConnectionOf(SSL* ssl) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeHeld);
  const auto* held = static_cast<const Held*>(SSL_get_ex_data(ssl, index));
  if (held != nullptr) return held->get();
  unsigned char random[SSL3_RANDOM_SIZE];
  const size_t size = SSL_get_client_random(ssl, random, sizeof(random));
  auto made =
      std::make_unique<Held>(Connection::OfTls({reinterpret_cast<const char*>(random), size}));
  if (*made == nullptr) return nullptr;
  CHECK_EQ(SSL_set_ex_data(ssl, index, made.get()), 1);
  return made.release()->get();
}

int WatchedRead(SSL* ssl, void* buffer, int size) {
  static const auto real = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "SSL_read"));
  CHECK(real != nullptr) << "SSL_read is in no library";
  const int got = real(ssl, buffer, size);
  if (got <= 0 || SSL_is_server(ssl) == 0) return got;
  Connection* connection = ConnectionOf(ssl);
  if (connection == nullptr) {
    LOG_EVERY_T(WARNING, 1.0)
        << "closed a TLS connection, because its second ClientHello differs from the first";
  } else if (connection->Decrypted({static_cast<const char*>(buffer), static_cast<size_t>(got)})) {
    return got;
  }
  // Makes SSL_get_error() return SSL_ERROR_SSL, so that gRPC closes the connection.
  ERR_raise(ERR_LIB_USER, ERR_R_OPERATION_FAIL);
  return -1;
}

}  // namespace
}  // namespace tandem::rpc

extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* buffer, int size) {
  return tandem::rpc::WatchedRead(ssl, buffer, size);
}
