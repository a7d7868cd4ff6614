// Mutual authentication of client and server with the job's secret. Neither side sends the secret,
// or any value that another program could use instead of the secret.
//
// The messages of the protocol:
//   client -> server   OpenSession: the job, a nonce
//   server -> client   a nonce, the session's id, HMAC-SHA256(secret, "server", nonces, id, job)
//   client -> server   with each call: id, counter, HMAC-SHA256(session key, counter and method)
//
// Both sides compute the session key as an HMAC of the job, the nonces and the session's id, with
// another label than "server". So a proof for one direction is not valid for the other. The nonces
// make recorded messages useless. The proof of a call does not cover the call's content; TLS
// protects the content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::rpc {

// Key of the metadata that authenticates a call; the value is EncodeStamp(). gRPC accepts any bytes
// as the value because of the suffix "-bin".
inline constexpr const char* kStampMetadata = "x-tandem-session-bin";
// Code in the message of an UNAUTHENTICATED reply. The code tells the client to open another
// session.
inline constexpr std::string_view kNoSessionCode = "[TD6021]";

inline constexpr size_t kNonceBytes = 32, kSessionIdBytes = 16, kProofBytes = 32;

// The values of a session that both sides know after OpenSession.
struct SessionTerms {
  std::string job;
  std::string client_nonce, server_nonce;  // random bytes of client and server, kNonceBytes each
  std::string id;                          // session id, kSessionIdBytes, chosen by the server
};

// Returns `count` cryptographically secure random bytes, also for keys.
std::string RandomBytes(size_t count);
// Returns the server's proof that it knows the secret.
std::string ServerProof(std::string_view secret, const SessionTerms& terms);
std::string SessionKey(std::string_view secret, const SessionTerms& terms);
// Returns the caller's proof that it knows the session key. `method`: the RPC, such as "Push".
std::string CallProof(std::string_view key, uint64_t counter, std::string_view method);
// Returns whether the two proofs are equal. The comparison takes constant time.
bool ProofsEqual(std::string_view a, std::string_view b);

// The authentication data of one call.
struct CallStamp {
  std::string session;   // id of the session
  uint64_t counter = 0;  // number of the call in the session, from 1; no number is used twice
  std::string proof;     // result of CallProof for this call
};
std::string EncodeStamp(const CallStamp& stamp);
std::optional<CallStamp> DecodeStamp(std::string_view bytes);

}  // namespace tandem::rpc
