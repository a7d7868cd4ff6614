// How a client and a server prove to each other that they hold the job's secret. Neither the secret
// nor anything that another program could use in its place is sent.
//
//   client -> server   OpenSession: the job, a nonce
//   server -> client   a nonce, the session's id, HMAC-SHA256(secret, "server" and all of these)
//   client -> server   with each call: id, counter, HMAC-SHA256(session key, counter and method)
//
// Both sides compute the session key from the secret and the same values, with another label: a
// proof of one direction is no proof of the other. The nonces make recorded messages worthless.
// The proof of a call does not cover what the call carries: TLS does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rpc {

// Metadata of each call: EncodeStamp. "-bin": gRPC takes any bytes.
inline constexpr const char* kStampMetadata = "x-tandem-session-bin";
// In the message of an UNAUTHENTICATED answer: the client must open another session.
inline constexpr std::string_view kNoSessionCode = "[TD6021]";

inline constexpr size_t kNonceBytes = 32, kSessionIdBytes = 16, kProofBytes = 32;

// What the two sides agree on when a session is opened.
struct SessionTerms {
  std::string job;
  std::string client_nonce, server_nonce;  // kNonceBytes each
  std::string id;                          // kSessionIdBytes, chosen by the server
};

std::string RandomBytes(size_t count);  // fit for keys
// The server's proof that it holds the secret.
std::string ServerProof(std::string_view secret, const SessionTerms& terms);
std::string SessionKey(std::string_view secret, const SessionTerms& terms);
// The caller's proof that it holds the session key. `method`: "Push".
std::string CallProof(std::string_view key, uint64_t counter, std::string_view method);
// Takes as long for the first different byte as for the last.
bool ProofsEqual(std::string_view a, std::string_view b);

// What a call carries.
struct CallStamp {
  std::string session;   // its id
  uint64_t counter = 0;  // of the session's calls, from 1; each is used once
  std::string proof;     // CallProof
};
std::string EncodeStamp(const CallStamp& stamp);
std::optional<CallStamp> DecodeStamp(std::string_view bytes);

}  // namespace tandem::rpc
