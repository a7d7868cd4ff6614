// Mutual authentication of client and server with the job's secret. Neither side sends the secret,
// nor anything that another program could use instead of it.
//
//   client -> server   OpenSession: the job, a nonce
//   server -> client   a nonce, the session's id, HMAC-SHA256(secret, "server" and all of these)
//   client -> server   with each call: id, counter, HMAC-SHA256(session key, counter and method)
//
// Both sides compute the session key from the secret and the same values, with a different label.
// So a proof for one direction is not valid for the other. The nonces make recorded messages
// useless.
// The proof of a call does not cover the call's content; TLS protects the content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rpc {

// Metadata key of each call; the value is EncodeStamp(). With the suffix "-bin" gRPC accepts any
// bytes.
inline constexpr const char* kStampMetadata = "x-tandem-session-bin";
// Part of the message of an UNAUTHENTICATED reply: the client must open another session.
inline constexpr std::string_view kNoSessionCode = "[TD6021]";

inline constexpr size_t kNonceBytes = 32, kSessionIdBytes = 16, kProofBytes = 32;

// Values that both sides know after a session is opened.
struct SessionTerms {
  std::string job;
  std::string client_nonce, server_nonce;  // kNonceBytes each
  std::string id;                          // kSessionIdBytes, chosen by the server
};

std::string RandomBytes(size_t count);  // suitable for keys
// The server's proof that it knows the secret.
std::string ServerProof(std::string_view secret, const SessionTerms& terms);
std::string SessionKey(std::string_view secret, const SessionTerms& terms);
// The caller's proof that it knows the session key. `method`: "Push".
std::string CallProof(std::string_view key, uint64_t counter, std::string_view method);
// Compares in constant time.
bool ProofsEqual(std::string_view a, std::string_view b);

// The authentication data of one call.
struct CallStamp {
  std::string session;   // session id
  uint64_t counter = 0;  // number of the call in the session, from 1; each is used once
  std::string proof;     // CallProof
};
std::string EncodeStamp(const CallStamp& stamp);
std::optional<CallStamp> DecodeStamp(std::string_view bytes);

}  // namespace tandem::rpc
