// The first bytes of a connection, which tell whether it is worth the server's while.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem::rpc {

enum class Hello {
  kMore,  // as far as it goes it is right
  kGood,
  kOther  // another protocol
};

// What ReadHello needs at most.
inline constexpr size_t kHelloBytes = 43;

// `tls`: a ClientHello up to the end of its 32 random bytes; else the preface of HTTP/2 (RFC 9113,
// 3.4).
Hello ReadHello(std::string_view bytes, bool tls);

// The 32 random bytes of a good ClientHello. The client repeats them when the server asks for
// another ClientHello (RFC 8446, 4.1.2).
std::string_view ClientRandom(std::string_view hello);

}  // namespace tandem::rpc
