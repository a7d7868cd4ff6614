// Checks whether the first bytes of a connection belong to the expected protocol.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem::rpc {

enum class Hello {
  kMore,  // the bytes are correct, but more bytes are needed
  kGood,
  kOther  // the first bytes belong to another protocol
};

// Maximum number of bytes that ReadHello needs for its result.
inline constexpr size_t kHelloBytes = 43;

// The bytes that an HTTP/2 client sends first (RFC 9113, 3.4).
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Checks the first bytes of a connection. If `tls`, checks a ClientHello up to the end of its 32
// random bytes. Otherwise checks kHttp2Preface.
Hello ReadHello(std::string_view bytes, bool tls);

// Returns the 32 random bytes of `hello`, a valid ClientHello. If the server requests a second
// ClientHello, the client repeats the same random bytes (RFC 8446, 4.1.2).
std::string_view ClientRandom(std::string_view hello);

}  // namespace tandem::rpc
